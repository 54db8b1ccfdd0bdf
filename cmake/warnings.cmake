# Warnings for our own targets only: vsa_own_target(name). They are g++'s: clang, which builds the
# fuzzers, means more by -Wconversion.
function(vsa_own_target target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wall -Wextra -Wconversion -Wshadow -Werror>)
endfunction()
