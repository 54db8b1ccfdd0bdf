# Headers of cuBLAS, cuDNN and NCCL. The libraries themselves are loaded at run time
# (src/cuda/support/libraries.cc), so nothing is linked; one whose headers are missing is left out.
# VSA_CUDA_LIBRARIES_STATE in the cache is what CI shows. -DVSA_CUDNN_INCLUDE_DIR=... names another
# folder, and likewise VSA_CUBLAS_INCLUDE_DIR, VSA_NCCL_INCLUDE_DIR.
set(VSA_CUDA_LIBRARY_STATES "")

# vsa_find_cuda_library(NAME HEADER VERSION_HEADER MACROS...): of the header that has the version, the
# macros of major, minor and patch.
function(vsa_find_cuda_library name header version_header)
  string(TOUPPER ${name} upper)
  string(TOLOWER ${name} lower)
  if(VSA_${upper}_INCLUDE_DIR AND NOT EXISTS ${VSA_${upper}_INCLUDE_DIR}/${header})
    unset(VSA_${upper}_INCLUDE_DIR CACHE)
  endif()
  # Beside the toolkit's, and where pip's packages have them: nvidia/cudnn/include beside nvidia/cu13.
  set(toolkit ${CUDAToolkit_INCLUDE_DIRS})
  set(packages "")
  foreach(folder IN LISTS toolkit)
    list(APPEND packages ${folder}/../../${lower}/include)
  endforeach()
  find_path(VSA_${upper}_INCLUDE_DIR ${header} HINTS ${toolkit} ${packages}
            DOC "Folder of ${header}, the header of ${name}")
  set(folder ${VSA_${upper}_INCLUDE_DIR})
  set(version "")
  if(folder AND EXISTS ${folder}/${version_header})
    # A newer header is looked at in the next build.
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folder}/${version_header})
    foreach(macro IN LISTS ARGN)
      file(STRINGS ${folder}/${version_header} line REGEX "^#define +${macro} +[0-9]+")
      string(REGEX MATCH "[0-9]+$" number "${line}")
      list(APPEND version ${number})
    endforeach()
    list(JOIN version "." version)
  endif()
  if(version MATCHES "^[0-9]+\\.[0-9]+\\.[0-9]+$")
    set(VSA_HAS_${upper} ON PARENT_SCOPE)
    set(VSA_${upper}_FOLDER ${folder} PARENT_SCOPE)
    list(APPEND VSA_CUDA_LIBRARY_STATES "${name} ${version} found in ${folder}")
  elseif(folder)
    list(APPEND VSA_CUDA_LIBRARY_STATES "${name} left out: ${folder} has no version in ${version_header}")
  else()
    list(APPEND VSA_CUDA_LIBRARY_STATES "${name} left out: no ${header} was found")
  endif()
  set(VSA_CUDA_LIBRARY_STATES "${VSA_CUDA_LIBRARY_STATES}" PARENT_SCOPE)
endfunction()

if(VSA_HAS_CUDA)
  vsa_find_cuda_library(cuBLAS cublasLt.h cublas_api.h CUBLAS_VER_MAJOR CUBLAS_VER_MINOR CUBLAS_VER_PATCH)
  vsa_find_cuda_library(cuDNN cudnn.h cudnn_version.h CUDNN_MAJOR CUDNN_MINOR CUDNN_PATCHLEVEL)
  vsa_find_cuda_library(NCCL nccl.h nccl.h NCCL_MAJOR NCCL_MINOR NCCL_PATCH)
  list(JOIN VSA_CUDA_LIBRARY_STATES ", " state)
else()
  set(state "left out with the CUDA backend")
endif()
set(VSA_CUDA_LIBRARIES_STATE "${state}" CACHE INTERNAL "")
message(NOTICE "CUDA libraries: ${state}")

# Lets `target` include the headers that were found, and says which: VSA_HAS_CUBLAS and so on.
function(vsa_add_cuda_libraries target)
  foreach(library CUBLAS CUDNN NCCL)
    if(VSA_HAS_${library})
      # Kernels do not include them, and need not be compiled again where one comes or goes.
      target_compile_definitions(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:VSA_HAS_${library}>)
      target_include_directories(${target} SYSTEM PRIVATE ${VSA_${library}_FOLDER})
    endif()
  endforeach()
endfunction()
