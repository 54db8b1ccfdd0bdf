# Installs the command into an empty folder, moves that elsewhere, and runs it in another folder, also
# through a link: it must find the model that was installed with it. The scripts for bash and zsh lie where
# these shells look. Variables: BUILD, WORK.
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK}/elsewhere)

function(run)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${WORK}/elsewhere COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --component vsa_command --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${WORK}/moved)
file(CREATE_LINK ${WORK}/moved/bin/vsa ${WORK}/elsewhere/linked SYMBOLIC)
foreach(program ${WORK}/moved/bin/vsa ./linked)
  run(${program} generate --prompt "a red circle moving right" --steps 1 --frames 8 --size 32x32
      -o out/a.gif --report out/a.json)
  run(${program} verify wan-toy --sums out/a.json)
  file(READ ${WORK}/elsewhere/out/a.json report)
  string(JSON model GET "${report}" model)
  if(NOT model STREQUAL wan-toy)
    message(FATAL_ERROR "expected the model wan-toy, got ${model}")
  endif()
  file(REMOVE_RECURSE ${WORK}/elsewhere/out)
endforeach()

find_program(BASH bash REQUIRED)
run(${BASH} --norc -c "
source ../moved/share/bash-completion/completions/vsa
PATH=$PWD/../moved/bin:$PATH COMP_WORDS=(vsa gener) COMP_CWORD=1; _vsa
[[ \${COMPREPLY[*]} == generate ]]")
find_program(ZSH zsh)
if(ZSH)
  run(${ZSH} -f -c "
  fpath=(../moved/share/zsh/site-functions \$fpath)
  autoload -U compinit && compinit -D -u && [[ \$_comps[vsa] == _vsa ]]")
else()
  message(STATUS "skipped: zsh is not installed, so its completion was not loaded")
endif()
