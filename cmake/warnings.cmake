# Warnings for our own targets only: vsa_own_target(name). clang means more by -Wconversion than g++,
# which looks at the same code.
function(vsa_own_target target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wall -Wextra -Wconversion -Wshadow -Werror>
    $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wall -Wextra -Wshadow -Werror>)
endfunction()
