// torch.ops.vsa.inference: the whole operator where only its output is wanted. Host-only.
//
// On the way from Python, PyTorch turns every list, float and int of a call into an object of its
// own. For video_sparse_attention this takes as long as launching its kernels. So this operator has
// the same arguments in one string, and returns the output alone: what backward would need is in
// the workspace, or is not computed.
#include <algorithm>
#include <charconv>

#include "bindings/torch/ops.h"

namespace vsa::torch_ops {
namespace {

/// The words of a text, one after the other.
class Words {
 public:
  explicit Words(std::string_view text) : rest_(text) {}

  bool done() const { return rest_.empty(); }

  std::string_view next() {
    const size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return word;
  }

  template <class Number>
  Number number() {
    return to_number<Number>(next());
  }

  /// Three edges, and the order if it is not 0.
  Ints tiling() {
    Ints numbers = three();
    if (const auto order = number<int64_t>(); order != 0) numbers.push_back(order);
    return numbers;
  }

  Ints three() { return {number<int64_t>(), number<int64_t>(), number<int64_t>()}; }

  OptionalDouble number_or_none() {
    const std::string_view word = next();
    return word == "none" ? std::nullopt : OptionalDouble(to_number<double>(word));
  }

 private:
  template <class Number>
  static Number to_number(std::string_view word) {
    Number value{};
    const char* end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, value);
    if (error != std::errc() || stop != end) reject("inference", "options", "a number", word);
    return value;
  }

  std::string_view rest_;
};

}  // namespace

TorchTensor inference(const TorchTensor& query, const TorchTensor& key, const TorchTensor& value,
                      const OptionalTensor& gate_coarse, const OptionalTensor& gate_fine,
                      const std::string& options, const OptionalTensor& q_pooled,
                      const OptionalTensor& k_pooled) {
  const Arguments args("video_sparse_attention", query);
  Words words(options);
  const Ints grid = words.three();
  const Ints tile_shape = words.tiling();
  const auto topk = words.number<int64_t>();
  const OptionalDouble scale = words.number_or_none();
  const auto gate_coarse_weight = words.number<double>();
  const auto gate_fine_weight = words.number<double>();
  const CoarseRounding rounding = args.rounding(words.next());
  Ints prefix;
  while (!words.done()) prefix.push_back(words.number<int64_t>());

  const SharedPlan plan = args.plan(grid, tile_shape, prefix);
  const std::vector<int32_t> prefix_list = prefix_tiles(*plan);
  AttentionArgs call{.q = args.bshd("query", query),
                     .k = args.bshd("key", key),
                     .v = args.bshd("value", value),
                     .gate_coarse = args.gate("gate_coarse", gate_coarse, gate_coarse_weight),
                     .gate_fine = args.gate("gate_fine", gate_fine, gate_fine_weight),
                     .q_plan = plan.get(),
                     .kv_plan = plan.get(),
                     .select = args.select(topk, *plan, prefix_list),
                     .scale = scale_of(scale),
                     .rounding = rounding,
                     .out = {}};
  if (q_pooled) call.q_pooled = args.bhsd("q_pooled", *q_pooled);
  if (k_pooled) call.k_pooled = args.bhsd("k_pooled", *k_pooled);
  TorchTensor out = new_like(query);
  call.out = args.bshd("out", out);
  run<AttentionArgs>(vsa::attention_forward, query, call);
  return out;
}

}  // namespace vsa::torch_ops
