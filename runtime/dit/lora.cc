// LoRAs and other changes of a transformer's weights, merged while they are loaded.
#include "runtime/dit/lora.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "runtime/dit/lora_config.h"
#include "runtime/dit/lora_names.h"
#include "runtime/dit/lora_steps.h"
#include "runtime/io/printable.h"
#include "runtime/io/safetensors.h"

namespace vsa::dit {
namespace {

/// The tensors of one module in one file.
struct Module {
  std::map<LoraRole, const io::TensorView*> tensors;
  std::map<LoraRole, LoraKey> keys;

  const io::TensorView* find(LoraRole role) const {
    const auto found = tensors.find(role);
    return found == tensors.end() ? nullptr : found->second;
  }
};

int64_t product(std::span<const int64_t> extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

/// Adds what one file does to the changes; misfits are collected.
class OneFile {
 public:
  OneFile(const LoraSpec& spec, const TensorShapes& shapes,
          std::map<std::string, LoraSteps>& changes)
      : spec_(spec), shapes_(shapes), changes_(changes) {}

  Status add() {
    Result<io::SafetensorsFile> opened = io::SafetensorsFile::open(spec_.file);
    VSA_TRY(opened.status());
    file_ = std::make_shared<const io::SafetensorsFile>(std::move(*opened));
    Result<LoraConfig> config = read_lora_config(spec_.file, file_->metadata());
    VSA_TRY(config.status());
    config_ = std::move(*config);
    const std::map<std::string, Module> modules = group();
    std::set<std::string, std::less<>> model;
    for (const auto& [name, shape] : shapes_) model.insert(name);
    std::vector<LoraKey> keys;
    for (const auto& [name, module] : modules) {
      for (const auto& [role, key] : module.keys) keys.push_back(key);
    }
    const LoraNames names(keys, model);
    for (const auto& [name, module] : modules) add(name, module, names);
    return outcome();
  }

 private:
  void misfit(const std::string& tensor, const std::string& why) {
    misfits_.push_back(fmt::format("{} ({})", io::printable(tensor), why));
  }

  std::map<std::string, Module> group() {
    std::map<std::string, Module> modules;
    for (const auto& [name, view] : file_->tensors()) {
      const std::optional<LoraKey> key = parse_lora_key(name);
      if (!key) {
        misfit(name, "no part of a LoRA");
        continue;
      }
      if (!io::to_dtype(view.type)) {
        misfit(name, io::to_string(view));
        continue;
      }
      Module& module = modules[key->module];
      if (!module.tensors.emplace(key->role, &view).second) misfit(name, "twice");
      module.keys.emplace(key->role, *key);
    }
    return modules;
  }

  /// A tensor that is added or set as it is.
  void add_whole(const std::string& name, const Module& module, const LoraNames& names,
                 LoraRole role) {
    const io::TensorView* const view = module.find(role);
    if (view == nullptr) return;
    const std::string tensor = names.tensor(module.keys.at(role));
    if (tensor.empty()) return misfit(name, "the model has no such module");
    const auto& shape = shapes_.find(tensor)->second;
    if (view->num_elements() != product(shape)) {
      return misfit(
          name, fmt::format("{} for {} [{}]", io::to_string(*view), tensor, fmt::join(shape, ",")));
    }
    changes_[tensor].add(
        {.kind = role == LoraRole::kSet ? LoraStep::Kind::kReplace : LoraStep::Kind::kAdd,
         .up = *view,
         .down = {},
         .scale = spec_.strength * bias_scale(role, name, module),
         .file = file_});
  }

  /// A bias of peft is scaled as its product.
  double bias_scale(LoraRole role, const std::string& name, const Module& module) const {
    const io::TensorView* const down = module.find(LoraRole::kDown);
    return role == LoraRole::kUpBias && down != nullptr && !down->shape.empty()
               ? scale(name, module, down->shape.front())
               : 1.0;
  }

  double scale(const std::string& name, const Module& module, int64_t rank) const {
    const io::TensorView* const alpha = module.find(LoraRole::kAlpha);
    if (alpha == nullptr || alpha->num_elements() != 1) return config_.scale(name, rank);
    float value = 0.0F;
    throw_if_error(io::copy_as_f32(*alpha, {&value, 1}));
    return static_cast<double>(value) / static_cast<double>(rank);
  }

  void add_product(const std::string& name, const Module& module, const LoraNames& names) {
    const io::TensorView* const down = module.find(LoraRole::kDown);
    const io::TensorView* const up = module.find(LoraRole::kUp);
    if (down == nullptr && up == nullptr) return;
    if (down == nullptr || up == nullptr) {
      return misfit(name, fmt::format("lora_{} without lora_{}", up == nullptr ? "A" : "B",
                                      up == nullptr ? "B" : "A"));
    }
    const std::string tensor = names.tensor(module.keys.at(LoraRole::kDown));
    if (tensor.empty()) return misfit(name, "the model has no such module");
    const auto& shape = shapes_.find(tensor)->second;
    const bool fits = down->shape.size() >= 2 && up->shape.size() >= 2 && !down->bytes.empty() &&
                      shape.size() >= 2 && up->shape[0] == shape[0] &&
                      up->num_elements() == shape[0] * down->shape[0] &&
                      down->num_elements() / down->shape[0] == product(shape) / shape[0];
    if (!fits) {
      return misfit(name, fmt::format("{} times {} for {} [{}]", io::to_string(*up),
                                      io::to_string(*down), tensor, fmt::join(shape, ",")));
    }
    changes_[tensor].add({.kind = LoraStep::Kind::kProduct,
                          .up = *up,
                          .down = *down,
                          .scale = spec_.strength * scale(name, module, down->shape[0]),
                          .file = file_});
  }

  void add(const std::string& name, const Module& module, const LoraNames& names) {
    if (const io::TensorView* alpha = module.find(LoraRole::kAlpha);
        alpha != nullptr && (alpha->num_elements() != 1 || !module.find(LoraRole::kDown))) {
      misfit(name + ".alpha", "expected one number beside lora_A");
    }
    add_whole(name, module, names, LoraRole::kSet);
    add_product(name, module, names);
    for (const LoraRole role :
         {LoraRole::kUpBias, LoraRole::kAdd, LoraRole::kAddBias, LoraRole::kAddTable}) {
      add_whole(name, module, names, role);
    }
  }

  Status outcome() const {
    constexpr size_t kShown = 4;
    if (misfits_.empty()) return {};
    const std::vector<std::string> first(
        misfits_.begin(),
        misfits_.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, misfits_.size())));
    return io_error(
        fmt::format("[lora] {}: expected changes of this transformer, got {} that do "
                    "not fit it: {}{}",
                    spec_.file.string(), misfits_.size(), fmt::join(first, ", "),
                    misfits_.size() > kShown ? ", ..." : ""));
  }

  const LoraSpec& spec_;
  const TensorShapes& shapes_;
  std::map<std::string, LoraSteps>& changes_;
  std::shared_ptr<const io::SafetensorsFile> file_;
  LoraConfig config_;
  std::vector<std::string> misfits_;
};

}  // namespace

Result<WeightChanges> open_loras(std::span<const LoraSpec> specs, const TensorShapes& shapes) {
  std::map<std::string, LoraSteps> steps;
  for (const LoraSpec& spec : specs) {
    VSA_TRY(OneFile(spec, shapes, steps).add());
  }
  WeightChanges changes;
  for (auto& [tensor, change] : steps) {
    changes.emplace(tensor, std::make_shared<const LoraSteps>(std::move(change)));
  }
  return changes;
}

}  // namespace vsa::dit
