# Installs vsa into an empty folder and builds a project outside the tree against it, by
# find_package and by pkg-config. Variables: BUILD, CONSUMER, WORK, CXX, CC.
set(prefix ${WORK}/prefix)
file(REMOVE_RECURSE ${WORK})

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --component vsa_development --prefix ${prefix})
run(${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/build -DCMAKE_PREFIX_PATH=${prefix}
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_C_COMPILER=${CC})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/cpp_consumer)
run(${WORK}/build/c_consumer)

file(GLOB_RECURSE pc ${prefix}/*/vsa.pc)
get_filename_component(pc_dir ${pc} DIRECTORY)
get_filename_component(lib_dir ${pc_dir} DIRECTORY)
set(ENV{PKG_CONFIG_PATH} ${pc_dir})
execute_process(COMMAND pkg-config --cflags --libs vsa OUTPUT_VARIABLE flags
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(flags UNIX_COMMAND "${flags}")
run(${CC} ${CONSUMER}/main.c ${flags} -o ${WORK}/pc_consumer)
set(ENV{LD_LIBRARY_PATH} ${lib_dir})
run(${WORK}/pc_consumer)
