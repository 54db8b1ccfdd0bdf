# VSA_SANITIZE=ON: AddressSanitizer and UBSan for everything that is built, first fault stops.
if(VSA_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all
                      -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=address,undefined)
endif()
