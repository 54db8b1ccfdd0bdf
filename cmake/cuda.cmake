# The CUDA backend: built where a CUDA toolkit is found. Sets VSA_HAS_CUDA, or VSA_CUDA_ABSENCE, the
# reason that `vsa --version` shows; VSA_CUDA_STATE in the cache is what CI shows.
set(VSA_CUDA AUTO CACHE STRING "Build the CUDA backend: AUTO (if a toolkit is found), ON or OFF")
set_property(CACHE VSA_CUDA PROPERTY STRINGS AUTO ON OFF)

set(VSA_HAS_CUDA OFF)
# 32 KiB of kernel parameters came with 12.1, cudaGetDriverEntryPointByVersion with 12.5.
set(VSA_CUDA_LEAST 12.5)
if(NOT VSA_CUDA)
  set(VSA_CUDA_ABSENCE "configured with VSA_CUDA=OFF")
elseif(VSA_SANITIZE)
  set(VSA_CUDA_ABSENCE "left out under sanitizers, which do not know device memory")
else()
  include(CheckLanguage)
  # No architecture of CMake's choosing: the flags below name the one that the kernels need.
  set(CMAKE_CUDA_ARCHITECTURES OFF)
  if(NOT CMAKE_CUDA_COMPILER)
    unset(CMAKE_CUDA_COMPILER CACHE)  # a toolkit may have come since the last look
  endif()
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    set(VSA_CUDA_ABSENCE "no CUDA toolkit was found at configure time")
  else()
    enable_language(CUDA)
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS VSA_CUDA_LEAST)
      set(VSA_CUDA_ABSENCE
          "CUDA ${VSA_CUDA_LEAST} or later is needed, ${CMAKE_CUDA_COMPILER_VERSION} was found")
    else()
      find_package(CUDAToolkit ${VSA_CUDA_LEAST} REQUIRED)
      set(VSA_HAS_CUDA ON)
    endif()
  endif()
  if(VSA_CUDA STREQUAL "ON" AND NOT VSA_HAS_CUDA)
    message(FATAL_ERROR "VSA_CUDA=ON: ${VSA_CUDA_ABSENCE}")
  endif()
endif()

if(VSA_HAS_CUDA)
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 with nvcc 13
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  set(state "compiled for sm_90a by nvcc ${CMAKE_CUDA_COMPILER_VERSION}")
else()
  set(state "LEFT OUT: ${VSA_CUDA_ABSENCE}")
endif()
set(VSA_CUDA_STATE "${state}" CACHE INTERNAL "")
message(NOTICE "CUDA backend: ${state}")

# A register that spills is an error by these options, a wgmma that ptxas serialises by the launcher.
set(VSA_CUDA_LAUNCHER ${CMAKE_CURRENT_LIST_DIR}/wgmma_launcher.sh)
set(VSA_CUDA_OPTIONS -gencode=arch=compute_90a,code=sm_90a -Xcompiler=-Wall,-Wextra
    -Xptxas=-warn-spills,-Werror -Werror=all-warnings)

# Adds the backend's sources to `target`.
function(vsa_add_cuda target)
  if(NOT VSA_HAS_CUDA)
    target_compile_definitions(${target} PRIVATE VSA_CUDA_ABSENCE="${VSA_CUDA_ABSENCE}")
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS cuda/*.cc cuda/*.cu cuda/sm90/*.cc cuda/sm90/*.cu)
  target_sources(${target} PRIVATE ${sources})
  target_compile_definitions(${target} PRIVATE VSA_HAS_CUDA)
  target_include_directories(${target} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:${VSA_CUDA_OPTIONS}>)
  set_property(TARGET ${target} PROPERTY CUDA_COMPILER_LAUNCHER ${VSA_CUDA_LAUNCHER}
                                         ${CMAKE_CUDA_COMPILER_LAUNCHER})
endfunction()
