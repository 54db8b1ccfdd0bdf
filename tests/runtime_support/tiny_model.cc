#include "tests/runtime_support/tiny_model.h"

#include <fmt/format.h>

#include <fstream>
#include <functional>
#include <numeric>

#include "runtime/io/safetensors_writer.h"
#include "tests/support/random.h"
#include "vsa/half.h"

namespace vsa::test {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kWidth = 32, kFfn = 48, kLayers = 3, kTextDim = 24, kFreq = 16;

/// Adds random tensors; every one has a seed of its own.
class Filler {
 public:
  Filler(TinyTensors& tensors, uint64_t seed) : tensors_(tensors), seed_(seed) {}

  void add(const std::string& name, std::vector<int64_t> shape, double std, double mean = 0.0) {
    const int64_t size =
        std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    TinyTensor tensor{std::move(shape), {}};
    for (const double z : normal(size, seed_ * 1000 + tensors_.size())) {
      tensor.values.push_back(static_cast<float>(mean + std * z));
    }
    tensors_[name] = std::move(tensor);
  }
  void linear(const std::string& name, int64_t out, int64_t in) {
    add(name + ".weight", {out, in}, 0.15);
    add(name + ".bias", {out}, 0.1);
  }
  void norm(const std::string& name, int64_t width) { add(name + ".weight", {width}, 0.1, 1.0); }

 private:
  TinyTensors& tensors_;
  uint64_t seed_;
};

void fill_transformer(TinyTensors& tensors, uint64_t seed, bool gates) {
  Filler fill(tensors, seed);
  fill.add("patch_embedding.weight", {kWidth, 3, 2, 4, 4}, 0.15);
  fill.add("patch_embedding.bias", {kWidth}, 0.1);
  fill.linear("condition_embedder.text_embedder.linear_1", kWidth, kTextDim);
  fill.linear("condition_embedder.text_embedder.linear_2", kWidth, kWidth);
  fill.linear("condition_embedder.time_embedder.linear_1", kWidth, kFreq);
  fill.linear("condition_embedder.time_embedder.linear_2", kWidth, kWidth);
  fill.linear("condition_embedder.time_proj", 6 * kWidth, kWidth);
  for (int64_t n = 0; n < kLayers; ++n) {
    const std::string block = fmt::format("blocks.{}.", n);
    fill.add(block + "scale_shift_table", {1, 6, kWidth}, 0.2);
    for (const char* attention : {"attn1", "attn2"}) {
      for (const char* part : {".to_q", ".to_k", ".to_v", ".to_out.0"}) {
        fill.linear(block + attention + part, kWidth, kWidth);
      }
      fill.norm(block + attention + ".norm_q", kWidth);
      fill.norm(block + attention + ".norm_k", kWidth);
    }
    if (gates) fill.linear(block + "to_gate_compress", kWidth, kWidth);
    fill.norm(block + "norm2", kWidth);
    fill.add(block + "norm2.bias", {kWidth}, 0.1);
    fill.linear(block + "ffn.net.0.proj", kFfn, kWidth);
    fill.linear(block + "ffn.net.2", kWidth, kFfn);
  }
  fill.add("scale_shift_table", {1, 2, kWidth}, 0.2);
  fill.linear("proj_out", 3 * 2 * 4 * 4, kWidth);
}

void fill_text_encoder(TinyTensors& tensors, uint64_t seed, const nlohmann::json& config) {
  Filler fill(tensors, seed + 1);
  const int64_t width = config.at("d_model");
  const int64_t heads = config.at("num_heads");
  const int64_t inner = heads * config.at("d_kv").get<int64_t>();
  const int64_t ffn = config.at("d_ff");
  fill.add("shared.weight", {config.at("vocab_size"), width}, 0.5);
  for (int64_t n = 0; n < config.at("num_layers"); ++n) {
    const std::string block = fmt::format("encoder.block.{}.layer.", n);
    for (const char* part : {"q", "k", "v"}) {
      fill.add(fmt::format("{}0.SelfAttention.{}.weight", block, part), {inner, width}, 0.15);
    }
    fill.add(block + "0.SelfAttention.o.weight", {width, inner}, 0.15);
    fill.add(block + "0.SelfAttention.relative_attention_bias.weight", {32, heads}, 0.3);
    fill.norm(block + "0.layer_norm", width);
    fill.add(block + "1.DenseReluDense.wi_0.weight", {ffn, width}, 0.15);
    fill.add(block + "1.DenseReluDense.wi_1.weight", {ffn, width}, 0.15);
    fill.add(block + "1.DenseReluDense.wo.weight", {width, ffn}, 0.15);
    fill.norm(block + "1.layer_norm", width);
  }
  fill.norm("encoder.final_layer_norm", width);
}

void write_json(const fs::path& path, const nlohmann::json& json) {
  std::ofstream(path) << json.dump(1);
}

const fs::path kGolden = fs::path(VSA_SOURCE_DIR) / "tests/golden/wan-tiny";

nlohmann::json read_json(const fs::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

}  // namespace

void write_tensors(const fs::path& path, const TinyTensors& tensors, bool as_f16,
                   const std::map<std::string, std::string>& metadata) {
  std::map<std::string, std::vector<F16>> halves;
  io::TensorMap views;
  for (const auto& [name, tensor] : tensors) {
    io::TensorView view{io::StorageType::kF32, tensor.shape,
                        std::as_bytes(std::span(tensor.values))};
    if (as_f16) {
      auto& half = halves[name];
      for (const float x : tensor.values) half.emplace_back(x);
      view.type = io::StorageType::kF16;
      view.bytes = std::as_bytes(std::span(half));
    }
    views.emplace(name, view);
  }
  throw_if_error(io::write_safetensors(path, views, {metadata.begin(), metadata.end()}));
}

TinyModel::TinyModel(uint64_t seed, bool gates)
    : index(read_json(kGolden / "model_index.json")),
      transformer_config(read_json(kGolden / "transformer/config.json")),
      text_config(read_json(kGolden / "text_encoder/config.json")),
      scheduler(read_json(kGolden / "scheduler/scheduler_config.json")),
      transformer_metadata{{"vsa.tile", "4,4,4"}, {"vsa.sparsity", "0.5"}} {
  index["vsa"].update({{"steps", 2}, {"frames", 8}, {"height", 32}, {"width", 32}});
  transformer_config.update({{"patch_size", {2, 4, 4}},
                             {"in_channels", 3},
                             {"out_channels", 3},
                             {"freq_dim", kFreq},
                             {"ffn_dim", kFfn},
                             {"num_layers", kLayers}});
  fill_transformer(transformer, seed, gates);
  fill_text_encoder(text_encoder, seed, text_config);
}

void TinyModel::write(const fs::path& root) const {
  for (const char* folder : {"transformer", "text_encoder", "tokenizer", "scheduler"}) {
    fs::create_directories(root / folder);
  }
  write_json(root / "model_index.json", index);
  write_json(root / "transformer/config.json", transformer_config);
  write_json(root / "text_encoder/config.json", text_config);
  write_json(root / "scheduler/scheduler_config.json", scheduler);
  fs::copy_file(kGolden / "tokenizer/spiece.model", root / "tokenizer/spiece.model",
                fs::copy_options::overwrite_existing);
  write_tensors(root / "transformer/diffusion_pytorch_model.safetensors", transformer, as_f16,
                transformer_metadata);
  write_tensors(root / "text_encoder/model.safetensors", text_encoder, as_f16, {});
}

}  // namespace vsa::test
