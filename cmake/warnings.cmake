# Warnings for our own targets only: vsa_own_target(name).
function(vsa_own_target target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion -Wshadow -Werror)
endfunction()
