// Gaussian noise that is a function of (seed, stream, index) and nothing else. Host-only.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace vsa::sampler {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): four 32-bit
/// words from a 128-bit counter and a 64-bit key.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// Writes elements [first, first + out.size()) of the stream: N(0, 1), rounded to f32.
///
/// Anyone can reproduce element i of (seed, stream). All of it is integer or IEEE f64 arithmetic in
/// the order written, with + - * / and sqrt only, so every machine gives the same bytes:
///   w  = philox4x32({lo(i / 2), hi(i / 2), lo(stream), hi(stream)}, {lo(seed), hi(seed)})
///   u1 = ((w0 + 2^32 w1) >> 11) * 2^-53 + 2^-54         in (0, 1]
///   u2 = ((w2 + 2^32 w3) >> 11) * 2^-53                 in [0, 1)
///   r  = sqrt(-2 ln u1)
///   element i = r cos(2 pi u2) if i is even, r sin(2 pi u2) if odd (Box and Muller)
/// with ln, cos and sin as in noise.cc. The largest value is sqrt(2 * 54 ln 2) = 8.65.
/// Cost: about 40 ns an element.
void normal(uint64_t seed, uint64_t stream, uint64_t first, std::span<float> out);

}  // namespace vsa::sampler
