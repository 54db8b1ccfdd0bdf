# VSA_SANITIZE=ON: AddressSanitizer and UBSan for everything that is built, first fault stops.
# VSA_FUZZ=ON (clang only): besides, coverage for libFuzzer.
if(VSA_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all
                      -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=address,undefined)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ 12 under sanitizers warns of its own <regex>; the Release build keeps the warning.
    add_compile_options(-Wno-maybe-uninitialized)
  endif()
endif()
if(VSA_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
  add_link_options(-rtlib=compiler-rt -unwindlib=libgcc)  # fp16 conversions that libgcc lacks
endif()
