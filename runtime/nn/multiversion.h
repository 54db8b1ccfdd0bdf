// VSA_MULTIVERSION: compiles a plain loop for several instruction sets; the loader picks.
// Host-only.
#pragma once

// Debian's baseline is SSE2; the same loops run 4 to 8 times wider with AVX2 and AVX-512. Left out
// under the sanitizers, whose runtime is not up yet when the loader picks, and on other machines,
// whose baseline has the vectors already.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define VSA_MULTIVERSION \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define VSA_MULTIVERSION
#endif

/// For helpers called inside a multiversioned loop: they must become part of it.
#define VSA_ALWAYS_INLINE inline __attribute__((always_inline))
