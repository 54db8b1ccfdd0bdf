// Checks single arguments of a call and words the faults; validate.h builds on it. Host-only.
//
// Every check returns InvalidArgument or Unsupported with `[operation] argument: expected X, got
// Y`. Arguments that pass are remembered, so that `separate_outputs` can compare their memory at
// the end.
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/overlap.h"
#include "vsa/stages.h"

namespace vsa {

/// An extent that the argument itself decides.
inline constexpr int64_t kAnyExtent = -1;
using Shape = std::array<int64_t, 4>;
/// Elements that a vector of the backends holds, so that rows of a multiple of them need no rest.
inline constexpr int64_t kRowStep = 8;

class ArgCheck {
 public:
  /// @param traits  of the backend of `context`; outlives this
  ArgCheck(std::string_view operation, const BackendTraits& traits, const Context& context)
      : operation_(operation), traits_(traits), context_(context) {
    inputs_.reserve(kFewTensors);
    outputs_.reserve(kFewTensors);
  }

  DTypes token_dtypes() const { return traits_.token_dtypes; }
  DTypes tile_dtypes() const { return traits_.tile_dtypes; }
  DTypes token_or_tile_dtypes() const;

  /// Thread count in range.
  Status context() const;
  Status plan(std::string_view argument, const TilePlan* plan) const;
  Status scale(const std::optional<float>& scale) const;
  Status rounding(CoarseRounding rounding) const;

  /// A tensor that is read: one of `dtypes`, this shape, last axis contiguous.
  /// @param hint appended to a message about dtype, shape or missing data; may be empty.
  Status input(std::string_view argument, const ConstTensor& t, DTypes dtypes, const Shape& shape,
               std::string_view hint = {});
  /// An input that may be left out.
  Status optional_input(std::string_view argument, const ConstTensor& t, DTypes dtypes,
                        const Shape& shape);
  /// A tensor that is written: besides, no two elements share memory.
  Status output(std::string_view argument, const Tensor& t, DTypes dtypes, const Shape& shape);
  /// An output that may be left out.
  Status optional_output(std::string_view argument, const Tensor& t, DTypes dtypes,
                         const Shape& shape);
  Status gate(std::string_view argument, const Gate& gate, DTypes dtypes, const Shape& shape);

  /// head_dim is one that the backend takes.
  Status head_dim(std::string_view argument, int64_t head_dim) const;
  /// The same for a stage without attention, which takes multiples of kRowStep where attention
  /// takes fewer head_dims.
  Status row_head_dim(std::string_view argument, int64_t head_dim) const;
  /// Each row begins at a multiple of the bytes that the backend asks of token rows. All tensors of
  /// a token dtype are checked for this; others only where a kernel reads them as vectors.
  Status aligned_rows(std::string_view argument, const ConstTensor& t) const;
  /// num_heads % num_kv_heads == 0
  Status head_groups(std::string_view argument, int64_t num_heads, int64_t num_kv_heads) const;

  /// Indices below `end`, ascending and unique.
  Status ascending(std::string_view argument, std::span<const int32_t> list, int64_t end);
  Status select_options(const SelectOptions& options, int64_t num_q_tiles, int64_t num_kv_tiles);
  /// A selection that is read: extents, counts and entries. In device memory only the extents: what
  /// it holds out of range is ignored there.
  Status input_lut(std::string_view argument, const ConstLut& lut, const LutDims& dims,
                   int64_t num_kv_tiles, std::string_view hint = {});
  /// A selection that is written; dims.pitch is the least pitch.
  Status output_lut(std::string_view argument, const Lut& lut, const LutDims& dims);

  /// No output shares memory with an input or another output. Call last.
  Status separate_outputs() const;

  /// The fault itself, for rules that only one entrance has.
  Status fault(std::string_view argument, std::string_view expected, std::string_view got,
               std::string_view hint = {}) const;

 private:
  Status tensor(std::string_view argument, const ConstTensor& t, DTypes dtypes, const Shape& shape,
                std::string_view hint) const;
  Status memory(std::string_view argument, const ConstTensor& t) const;
  Status head_dim_of(const BackendTraits& traits, std::string_view argument,
                     int64_t head_dim) const;
  Status lut_extents(std::string_view argument, const ConstLut& lut, const LutDims& dims,
                     std::string_view hint) const;
  void remember_lut(std::string_view argument, const ConstLut& lut, std::vector<Region>& where);

  static constexpr size_t kFewTensors = 8;  // of most calls; more only take longer
  std::string_view operation_;
  const BackendTraits& traits_;
  Context context_;
  std::vector<Region> inputs_;
  std::vector<Region> outputs_;
};

}  // namespace vsa
