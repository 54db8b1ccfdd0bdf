# Installs the command into an empty folder, moves that elsewhere, and runs it in another folder, also
# through a link: it must find the model that was installed with it. Variables: BUILD, WORK.
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
