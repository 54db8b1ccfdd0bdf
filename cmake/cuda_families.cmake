# Families of CUDA architectures (src/cuda/family.h): folder=architecture[,architecture...]. The first
# runs on every card of the family; the others are for cards on which code of their own is faster.
# Sources in a folder of that name are compiled for its family alone, all others for every family.
set(VSA_CUDA_FAMILIES sm90=90a)

# FIRST is what development and CI compile, ALL what `make wheel` does for a release.
set(VSA_CUDA_ARCHITECTURES FIRST CACHE STRING "Architectures of each family: FIRST or ALL")
set_property(CACHE VSA_CUDA_ARCHITECTURES PROPERTY STRINGS FIRST ALL)

# vsa_cuda_families(which family=...): of which architectures (FIRST, ALL), sets in the caller
#   VSA_CUDA_FOLDERS           the families' folders
#   VSA_CUDA_GENCODE           options of nvcc for the architectures of all families
#   VSA_CUDA_GENCODE_<folder>  options for those of one
#   VSA_CUDA_ARCHITECTURE_NAMES  "sm_90a, sm_100a"
function(vsa_cuda_families which)
  if(NOT which MATCHES "^(FIRST|ALL)$")
    message(FATAL_ERROR "VSA_CUDA_ARCHITECTURES: expected FIRST or ALL, got ${which}")
  endif()
  foreach(family IN LISTS ARGN)
    if(NOT family MATCHES "^([a-z0-9_]+)=([0-9]+[af]?(,[0-9]+[af]?)*)$")
      message(FATAL_ERROR "family of CUDA architectures: expected folder=architecture,..., got ${family}")
    endif()
    set(folder ${CMAKE_MATCH_1})
    string(REPLACE "," ";" architectures ${CMAKE_MATCH_2})
    if(which STREQUAL FIRST)
      list(GET architectures 0 architectures)
    endif()
    set(own "")
    foreach(architecture IN LISTS architectures)
      list(APPEND own -gencode=arch=compute_${architecture},code=sm_${architecture})
      list(APPEND names sm_${architecture})
    endforeach()
    list(APPEND folders ${folder})
    list(APPEND all ${own})
    set(VSA_CUDA_GENCODE_${folder} "${own}" PARENT_SCOPE)
  endforeach()
  list(JOIN names ", " names)
  set(VSA_CUDA_FOLDERS "${folders}" PARENT_SCOPE)
  set(VSA_CUDA_GENCODE "${all}" PARENT_SCOPE)
  set(VSA_CUDA_ARCHITECTURE_NAMES "${names}" PARENT_SCOPE)
endfunction()
