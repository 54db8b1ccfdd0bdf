// What `vsa plan` says of memory is what `vsa generate` takes, for layers of Wan2.1's true shapes.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <sstream>

#include "tests/cli/expect.h"
#include "vsa/backend.h"

namespace vsa::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Shapes = std::vector<std::pair<std::string, std::vector<int64_t>>>;

/// A safetensors file of zeros, which takes no room on the disk: a file with a hole.
void write_zeros(const fs::path& path, const Shapes& shapes, const std::string& dtype,
                 int64_t element_bytes) {
  json header;
  int64_t at = 0;
  for (const auto& [name, shape] : shapes) {
    const int64_t bytes =
        std::accumulate(shape.begin(), shape.end(), element_bytes, std::multiplies<>());
    header[name] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      << std::string(reinterpret_cast<const char*>(&length), 8) << text;
  fs::resize_file(path, 8 + text.size() + static_cast<uint64_t>(at));
}

void add_linear(Shapes& shapes, const std::string& name, int64_t out, int64_t in) {
  shapes.push_back({name + ".weight", {out, in}});
  shapes.push_back({name + ".bias", {out}});
}

/// Wan2.1 1.3B with that many layers.
Shapes transformer(int64_t layers) {
  constexpr int64_t kWidth = 1536, kFfn = 8960;
  Shapes shapes{{"patch_embedding.weight", {kWidth, 16, 1, 2, 2}},
                {"patch_embedding.bias", {kWidth}},
                {"scale_shift_table", {1, 2, kWidth}}};
  const std::string embedder = "condition_embedder.";
  add_linear(shapes, embedder + "text_embedder.linear_1", kWidth, 4096);
  add_linear(shapes, embedder + "text_embedder.linear_2", kWidth, kWidth);
  add_linear(shapes, embedder + "time_embedder.linear_1", kWidth, 256);
  add_linear(shapes, embedder + "time_embedder.linear_2", kWidth, kWidth);
  add_linear(shapes, embedder + "time_proj", 6 * kWidth, kWidth);
  add_linear(shapes, "proj_out", 64, kWidth);
  for (int64_t n = 0; n < layers; ++n) {
    const std::string block = fmt::format("blocks.{}.", n);
    shapes.push_back({block + "scale_shift_table", {1, 6, kWidth}});
    for (const std::string attention : {"attn1.", "attn2."}) {
      for (const char* part : {"to_q", "to_k", "to_v", "to_out.0"}) {
        add_linear(shapes, block + attention + part, kWidth, kWidth);
      }
      for (const char* part : {"norm_q", "norm_k"}) {
        shapes.push_back({block + attention + part + ".weight", {kWidth}});
      }
    }
    shapes.push_back({block + "norm2.weight", {kWidth}});
    shapes.push_back({block + "norm2.bias", {kWidth}});
    add_linear(shapes, block + "ffn.net.0.proj", kFfn, kWidth);
    add_linear(shapes, block + "ffn.net.2", kWidth, kFfn);
  }
  return shapes;
}

/// umT5-XXL with that many layers, and a table of 32 thousand pieces.
Shapes text_encoder(int64_t layers) {
  constexpr int64_t kWidth = 4096, kFfn = 10240;
  Shapes shapes{{"shared.weight", {32000, kWidth}}, {"encoder.final_layer_norm.weight", {kWidth}}};
  for (int64_t n = 0; n < layers; ++n) {
    const std::string block = fmt::format("encoder.block.{}.layer.", n);
    for (const char* part : {"q", "k", "v", "o"}) {
      shapes.push_back({block + "0.SelfAttention." + part + ".weight", {kWidth, kWidth}});
    }
    shapes.push_back({block + "0.SelfAttention.relative_attention_bias.weight", {32, 64}});
    shapes.push_back({block + "0.layer_norm.weight", {kWidth}});
    shapes.push_back({block + "1.DenseReluDense.wi_0.weight", {kFfn, kWidth}});
    shapes.push_back({block + "1.DenseReluDense.wi_1.weight", {kFfn, kWidth}});
    shapes.push_back({block + "1.DenseReluDense.wo.weight", {kWidth, kFfn}});
    shapes.push_back({block + "1.layer_norm.weight", {kWidth}});
  }
  return shapes;
}

/// The published VAE.
Shapes vae() {
  Shapes shapes;
  std::ifstream names(fs::path(VSA_SOURCE_DIR) / "tests/golden/wan-vae-names.txt");
  for (std::string wan, name, extents; names >> wan >> name >> extents;) {
    std::istringstream list(extents);
    std::vector<int64_t>& shape = shapes.emplace_back(name, std::vector<int64_t>()).second;
    for (std::string extent; std::getline(list, extent, ',');) shape.push_back(std::stoll(extent));
  }
  return shapes;
}

struct Depth {
  int64_t transformer, text_encoder;
};

class PlanMemory : public testing::TestWithParam<Depth> {};

TEST_P(PlanMemory, IsRightToATenth) {
  if (*cpu_isa() == "baseline") GTEST_SKIP() << "oneDNN copies inputs there";
  const auto& [layers, text_layers] = GetParam();
  TemporaryDirectory dir;
  const fs::path model = dir.path() / "model";
  // Configuration, tokenizer and sampler of the tiny model, with true shapes.
  const fs::path tiny = fs::path(VSA_SOURCE_DIR) / "tests/golden/wan-diffusers";
  for (const char* part : {"scheduler", "tokenizer", "transformer", "text_encoder", "vae"}) {
    fs::create_directories(model / part);
  }
  fs::copy_file(tiny / "model_index.json", model / "model_index.json");
  fs::copy(tiny / "scheduler", model / "scheduler");
  fs::copy(tiny / "tokenizer", model / "tokenizer");
  const auto configure = [&](const fs::path& file, const json& fields) {
    json config = json::parse(read_file(tiny / file));
    config.update(fields);
    write_file(model / file, config.dump());
  };
  configure("transformer/config.json", {{"num_attention_heads", 12},
                                        {"attention_head_dim", 128},
                                        {"ffn_dim", 8960},
                                        {"num_layers", layers},
                                        {"text_dim", 4096},
                                        {"freq_dim", 256}});
  configure("text_encoder/config.json", {{"vocab_size", 32000},
                                         {"d_model", 4096},
                                         {"d_kv", 64},
                                         {"d_ff", 10240},
                                         {"num_heads", 64},
                                         {"num_layers", text_layers}});
  configure("vae/config.json",
            {{"base_dim", 96}, {"dim_mult", {1, 2, 4, 4}}, {"num_res_blocks", 2}});
  const std::string file = "diffusion_pytorch_model.safetensors";
  write_zeros(model / "transformer" / file, transformer(layers), "BF16", 2);
  write_zeros(model / "text_encoder" / "model.safetensors", text_encoder(text_layers), "BF16", 2);
  write_zeros(model / "vae" / file, vae(), "F32", 4);

  const auto run = [&](std::vector<std::string> args) {
    args.insert(args.end(), {"--model", model.string(), "--frames", "1", "--size", "32x32",
                             "--steps", "1", "--attention", "dense", "--json"});
    const RunResult result = run_vsa(args);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.exit_code == 0 ? result.json() : json();
  };
  const json plan = run({"plan"});
  const json report = run({"generate", "-p", "a cat", "--seed", "1", "-o", dir.file("a.y4m")});
  ASSERT_FALSE(plan.is_null() || report.is_null());
  const auto planned = plan["peak_memory_bytes"].get<double>();
  const auto peak = report["peak_memory_bytes"].get<double>();
  RecordProperty("planned_mib", std::to_string(planned / (1 << 20)));
  RecordProperty("peak_mib", std::to_string(peak / (1 << 20)));
  EXPECT_GT(planned, 1e9);  // so large that the program itself, of 60 MB, is within the tenth
  EXPECT_NEAR(peak / planned, 1.0, 0.1) << peak << " bytes, planned " << planned;
  const char* const stage = text_layers > 1 ? "text_encoder" : "transformer";
  EXPECT_EQ(plan["stages"][stage]["memory_bytes"], plan["peak_memory_bytes"]);
}

INSTANTIATE_TEST_SUITE_P(Layers, PlanMemory, testing::Values(Depth{2, 3}, Depth{16, 1}),
                         [](const auto& depth) {
                           return fmt::format("T{}Text{}", depth.param.transformer,
                                              depth.param.text_encoder);
                         });

}  // namespace
}  // namespace vsa::test
