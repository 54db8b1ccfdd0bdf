// The two ways checkpoints name the tensors of Wan2.1's VAE. Host-only.
#include "runtime/vae/tensor_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace vsa::vae {
namespace {

/// One module under two names. Rules match whole dotted components.
struct Rule {
  std::string_view from;
  std::string_view to;
};

/// Of the whole model, Wan's own -> diffusers.
constexpr std::array kTop{Rule{"conv1", "quant_conv"}, Rule{"conv2", "post_quant_conv"}};
/// Of the encoder and of the decoder.
constexpr std::array kSide{
    Rule{"conv1", "conv_in"},
    Rule{"middle.0", "mid_block.resnets.0"},
    Rule{"middle.1", "mid_block.attentions.0"},
    Rule{"middle.2", "mid_block.resnets.1"},
    Rule{"head.0", "norm_out"},
    Rule{"head.2", "conv_out"},
    Rule{"downsamples", "down_blocks"},
};
/// Inside a residual block.
constexpr std::array kBlock{
    Rule{"residual.0", "norm1"}, Rule{"residual.2", "conv1"},       Rule{"residual.3", "norm2"},
    Rule{"residual.6", "conv2"}, Rule{"shortcut", "conv_shortcut"},
};

/// Replaces `from` at the front if a component ends there.
bool replace_front(const Rule& rule, std::string& name) {
  if (!name.starts_with(rule.from)) return false;
  if (name.size() > rule.from.size() && name[rule.from.size()] != '.') return false;
  name.replace(0, rule.from.size(), rule.to);
  return true;
}

/// Replaces `from` at the first place where it is a run of whole components.
bool replace_inside(const Rule& rule, std::string& name) {
  const size_t at = name.find(fmt::format(".{}.", rule.from));
  if (at == std::string::npos) return false;
  name.replace(at + 1, rule.from.size(), rule.to);
  return true;
}

std::string_view without_prefix(std::string_view name) {
  for (const std::string_view prefix : kPartPrefixes) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

/// "upsamples.5.rest" -> "up_blocks.1.resnets.1.rest": the blocks of a level and its upsampler.
void split_upsamples(int64_t num_res_blocks, std::string& name) {
  constexpr std::string_view kList = "upsamples.";
  if (!name.starts_with(kList)) return;
  int64_t index = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, fault] = std::from_chars(name.data() + kList.size(), end, index);
  if (fault != std::errc() || index < 0 || rest == end || *rest != '.') return;
  const int64_t of_level = num_res_blocks + 2;
  const int64_t within = index % of_level;
  const std::string module =
      within + 1 < of_level ? fmt::format("resnets.{}", within) : std::string("upsamplers.0");
  name = fmt::format("up_blocks.{}.{}{}", index / of_level, module, std::string_view(rest, end));
}

bool any_starts_with(const std::vector<std::string>& names, std::string_view start) {
  return std::ranges::any_of(
      names, [&](const std::string& name) { return without_prefix(name).starts_with(start); });
}

}  // namespace

std::string_view name(Naming naming) { return naming == Naming::kDiffusers ? "diffusers" : "wan"; }

Result<Naming> detect_naming(const std::vector<std::string>& names) {
  // Wan2.2's VAE nests a level's blocks, in both namings.
  for (const std::string_view mark :
       {"decoder.upsamples.0.upsamples.", "encoder.downsamples.0.downsamples.",
        "encoder.down_blocks.0.resnets.0.conv1.weight", "decoder.up_blocks.0.upsampler."}) {
    if (!any_starts_with(names, mark)) continue;
    // A picture's VAE has that list too, but group norms with biases.
    if (any_starts_with(names, "decoder.mid_block.attentions.0.group_norm.")) break;
    return unsupported(
        fmt::format("[load] vae: expected the tensors of Wan2.1's VAE, got {}...: Wan2.2's VAE is "
                    "not supported",
                    mark));
  }
  // Wan's norms have a gamma alone, which no other model of these module names has.
  constexpr std::array kMarks{
      std::pair{Naming::kDiffusers, std::string_view("mid_block.resnets.0.norm1.gamma")},
      std::pair{Naming::kOriginal, std::string_view("middle.0.residual.0.gamma")}};
  for (const auto& [naming, mark] : kMarks) {
    for (const std::string_view side : {"decoder.", "encoder."}) {
      if (any_starts_with(names, fmt::format("{}{}", side, mark))) return naming;
    }
  }
  return io_error(
      fmt::format("[load] vae: expected a tensor decoder.{} or decoder.{} (names of diffusers or "
                  "Wan), got none "
                  "of {}: it is not Wan2.1's VAE",
                  kMarks[0].second, kMarks[1].second, names.size()));
}

std::string diffusers_name(std::string_view file_name, Naming naming, int64_t num_res_blocks) {
  std::string whole(without_prefix(file_name));
  if (naming == Naming::kDiffusers) return whole;
  const bool decoder = whole.starts_with("decoder.");
  if (!decoder && !whole.starts_with("encoder.")) {
    std::ranges::any_of(kTop, [&](const Rule& rule) { return replace_front(rule, whole); });
    return whole;
  }
  const std::string side = whole.substr(0, whole.find('.') + 1);
  std::string tail = whole.substr(side.size());
  std::ranges::any_of(kSide, [&](const Rule& rule) { return replace_front(rule, tail); });
  if (decoder) split_upsamples(num_res_blocks, tail);
  std::ranges::any_of(kBlock, [&](const Rule& rule) { return replace_inside(rule, tail); });
  return side + tail;
}

}  // namespace vsa::vae
