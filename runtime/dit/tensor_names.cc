// The three ways checkpoints name a Wan transformer's tensors. Host-only.
#include "runtime/dit/tensor_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

namespace vsa::dit {
namespace {

/// One module under two names. Rules match whole dotted components.
struct Rule {
  std::string_view from;
  std::string_view to;
};

/// Of the whole model, Wan's own -> diffusers.
constexpr std::array kOriginalTop{
    Rule{"text_embedding.0", "condition_embedder.text_embedder.linear_1"},
    Rule{"text_embedding.2", "condition_embedder.text_embedder.linear_2"},
    Rule{"time_embedding.0", "condition_embedder.time_embedder.linear_1"},
    Rule{"time_embedding.2", "condition_embedder.time_embedder.linear_2"},
    Rule{"time_projection.1", "condition_embedder.time_proj"},
    Rule{"head.modulation", "scale_shift_table"},
    Rule{"head.head", "proj_out"},
};
/// Inside a block. norm3 -> norm2 is the affine norm; Wan's norm1 and norm2 have no weights.
constexpr std::array kOriginalBlock{
    Rule{"modulation", "scale_shift_table"},   Rule{"self_attn.q", "attn1.to_q"},
    Rule{"self_attn.k", "attn1.to_k"},         Rule{"self_attn.v", "attn1.to_v"},
    Rule{"self_attn.o", "attn1.to_out.0"},     Rule{"self_attn.norm_q", "attn1.norm_q"},
    Rule{"self_attn.norm_k", "attn1.norm_k"},  Rule{"cross_attn.q", "attn2.to_q"},
    Rule{"cross_attn.k", "attn2.to_k"},        Rule{"cross_attn.v", "attn2.to_v"},
    Rule{"cross_attn.o", "attn2.to_out.0"},    Rule{"cross_attn.norm_q", "attn2.norm_q"},
    Rule{"cross_attn.norm_k", "attn2.norm_k"}, Rule{"norm3", "norm2"},
    Rule{"ffn.0", "ffn.net.0.proj"},           Rule{"ffn.2", "ffn.net.2"},
};

constexpr std::array kFastVideoTop{
    Rule{"patch_embedding.proj", "patch_embedding"},
    Rule{"condition_embedder.text_embedder.fc_in", "condition_embedder.text_embedder.linear_1"},
    Rule{"condition_embedder.text_embedder.fc_out", "condition_embedder.text_embedder.linear_2"},
    Rule{"condition_embedder.time_embedder.mlp.fc_in", "condition_embedder.time_embedder.linear_1"},
    Rule{"condition_embedder.time_embedder.mlp.fc_out",
         "condition_embedder.time_embedder.linear_2"},
    Rule{"condition_embedder.time_modulation.linear", "condition_embedder.time_proj"},
};
constexpr std::array kFastVideoBlock{
    Rule{"to_q", "attn1.to_q"},
    Rule{"to_k", "attn1.to_k"},
    Rule{"to_v", "attn1.to_v"},
    Rule{"to_out", "attn1.to_out.0"},
    Rule{"norm_q", "attn1.norm_q"},
    Rule{"norm_k", "attn1.norm_k"},
    Rule{"attn2.to_out", "attn2.to_out.0"},
    Rule{"self_attn_residual_norm.norm", "norm2"},
    Rule{"ffn.fc_in", "ffn.net.0.proj"},
    Rule{"ffn.fc_out", "ffn.net.2"},
};

/// Some ports put the gate into the attention module.
constexpr std::array kGateBlock{Rule{"attn1.to_gate_compress", "to_gate_compress"},
                                Rule{"self_attn.to_gate_compress", "to_gate_compress"}};

/// Replaces `from` at the front if a component ends there; empty if it does not fit.
std::string apply(const Rule& rule, std::string_view name) {
  if (!name.starts_with(rule.from)) return {};
  const std::string_view rest = name.substr(rule.from.size());
  if (!rest.empty() && rest.front() != '.') return {};
  return fmt::format("{}{}", rule.to, rest);
}

std::string apply_first(std::span<const Rule> rules, std::string_view name) {
  for (const Rule& rule : rules) {
    if (std::string renamed = apply(rule, name); !renamed.empty()) return renamed;
  }
  return std::string(name);
}

/// A name in two: "blocks.N." and what follows; nothing and the whole for a name outside a block.
std::pair<std::string_view, std::string_view> split_block(std::string_view name) {
  constexpr std::string_view kBlocks = "blocks.";
  const size_t dot = name.find('.', kBlocks.size());
  if (!name.starts_with(kBlocks) || dot == name.npos) return {"", name};
  return {name.substr(0, dot + 1), name.substr(dot + 1)};
}

std::string_view without_prefix(std::string_view name) {
  for (const std::string_view prefix : kPartPrefixes) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

}  // namespace

std::string_view name(Naming naming) {
  switch (naming) {
    case Naming::kDiffusers:
      return "diffusers";
    case Naming::kOriginal:
      return "wan";
    case Naming::kFastVideo:
      return "fastvideo";
  }
  return "unknown";
}

Result<Naming> detect_naming(const std::vector<std::string>& names) {
  // The timestep MLP is in every checkpoint, under a name of its own in each naming.
  constexpr std::array kMarks{
      std::pair{Naming::kDiffusers, std::string_view("condition_embedder.time_proj.weight")},
      std::pair{Naming::kOriginal, std::string_view("time_projection.1.weight")},
      std::pair{Naming::kFastVideo,
                std::string_view("condition_embedder.time_modulation.linear.weight")}};
  std::vector<Naming> found;
  for (const auto& mark : kMarks) {
    const auto is_mark = [&](const auto& n) { return without_prefix(n) == mark.second; };
    if (std::ranges::any_of(names, is_mark)) found.push_back(mark.first);
  }
  if (found.size() == 1) return found.front();
  return io_error(fmt::format(
      "[load] transformer: expected exactly one of the tensors {}, {}, {} (names of diffusers, Wan "
      "or FastVideo), got {}",
      kMarks[0].second, kMarks[1].second, kMarks[2].second, found.size()));
}

std::string original_name(std::string_view diffusers_name) {
  const auto [head, tail] = split_block(diffusers_name);
  const std::span<const Rule> rules =
      head.empty() ? std::span<const Rule>(kOriginalTop) : std::span<const Rule>(kOriginalBlock);
  for (const auto& [from, to] : rules) {
    if (std::string renamed = apply({to, from}, tail); !renamed.empty()) {
      return fmt::format("{}{}", head, renamed);
    }
  }
  return std::string(diffusers_name);
}

std::string diffusers_name(std::string_view file_name, Naming naming) {
  const std::string_view whole = without_prefix(file_name);
  const auto [head, rest] = split_block(whole);
  const bool in_block = !head.empty();
  std::string tail(rest);
  if (naming == Naming::kOriginal) {
    tail = in_block ? apply_first(kOriginalBlock, tail) : apply_first(kOriginalTop, tail);
  } else if (naming == Naming::kFastVideo) {
    tail = in_block ? apply_first(kFastVideoBlock, tail) : apply_first(kFastVideoTop, tail);
  }
  if (in_block) tail = apply_first(kGateBlock, tail);
  return fmt::format("{}{}", head, tail);
}

}  // namespace vsa::dit
