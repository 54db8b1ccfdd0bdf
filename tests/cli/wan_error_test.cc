// What can be wrong with Wan's models, their files and settings: one line that names it.
#include <algorithm>
#include <filesystem>
#include <limits>

#include "runtime/io/checkpoint.h"
#include "runtime/io/safetensors_writer.h"
#include "tests/cli/expect.h"
#include "tests/runtime_support/stored_tensors.h"
#include "tests/runtime_support/tiny_model.h"

namespace vsa::test {
namespace {

namespace fs = std::filesystem;
using Args = std::vector<std::string>;
using testing::HasSubstr;

constexpr const char* kWeights = "diffusion_pytorch_model";

struct CliWanError : testing::Test {
  TemporaryDirectory dir;
  const fs::path golden = fs::path(VSA_SOURCE_DIR) / "tests/golden/wan-diffusers";
  const fs::path model = dir.path() / "model";
  const std::string video = dir.file("star.y4m");
  const std::string latents = dir.file("star.latents.safetensors");

  CliWanError() { reset(); }
  void reset() const {
    fs::remove_all(model);
    fs::copy(golden, model, fs::copy_options::recursive);
  }

  RunResult generate(const Args& more, const RunOptions& options = {}) const {
    const std::vector<std::pair<std::string, std::string>> usual{
        {"--model", model.string()}, {"-p", "a small red star"}, {"--seed", "7"},
        {"--frames", "9"},           {"--size", "48x32"},        {"--steps", "2"},
        {"--guidance", "5"},         {"--attention", "dense"},   {"-o", video}};
    Args args = {"generate"};
    for (const auto& [option, value] : usual) {
      if (std::ranges::find(more, option) == more.end()) {
        args.insert(args.end(), {option, value});
      }
    }
    args.insert(args.end(), more.begin(), more.end());
    return run_vsa(args, options);
  }
  /// Fails before anything is computed, and leaves nothing.
  void fails(int exit_code, const std::string& text, const Args& more = {}) const {
    expect_failure(generate(more), exit_code, "vsa generate", text);
    EXPECT_FALSE(fs::exists(video));
    EXPECT_FALSE(fs::exists(latents));
  }

  fs::path weights(const std::string& part) const {
    return model / part /
           (part == "text_encoder" ? "model.safetensors" : std::string(kWeights) + ".safetensors");
  }
  /// Rewrites a part with one tensor changed.
  template <class Change>
  void change(const std::string& part, const std::string& tensor, const Change& change) const {
    TinyTensors tensors = tensors_of(io::Checkpoint::open(weights(part)).value());
    change(tensors.at(tensor));
    write_tensors(weights(part), tensors);
  }
  static void make_nan(TinyTensor& tensor) {
    tensor.values.back() = std::numeric_limits<float>::quiet_NaN();
  }
  /// Changes a field of a JSON file.
  void configure(const std::string& file, const nlohmann::json& fields) const {
    nlohmann::json json = nlohmann::json::parse(read_file(model / file));
    json.update(fields);
    write_file(model / file, json.dump());
  }
  /// Splits the transformer into two files with an index.
  void shard(const std::string& first, const std::string& second) const {
    const TinyTensors all = tensors_of(io::Checkpoint::open(weights("transformer")).value());
    TinyTensors parts[2];
    nlohmann::json map;
    for (const auto& [name, tensor] : all) {
      const bool in_second = name.starts_with("blocks.1.");
      parts[in_second][name] = tensor;
      map[name] = in_second ? second : first;
    }
    fs::remove(weights("transformer"));
    write_tensors(model / "transformer" / first, parts[0]);
    write_tensors(model / "transformer" / second, parts[1]);
    write_file(model / "transformer" / (std::string(kWeights) + ".safetensors.index.json"),
               nlohmann::json{{"weight_map", map}}.dump());
  }
};

TEST_F(CliWanError, ShardsThatAreNotThere) {
  const std::string second = std::string(kWeights) + "-00002-of-00002.safetensors";
  shard(std::string(kWeights) + "-00001-of-00002.safetensors", second);
  expect_success(generate({}));
  fs::remove(video);
  fs::remove(model / "transformer" / second);
  fails(4, "model.safetensors.index.json: \"" + second +
               "\": expected beside the index, which names it, got no such file");
  fs::remove(model / "transformer" / (std::string(kWeights) + ".safetensors.index.json"));
  fails(4, "-00001-of-00002.safetensors, a shard, without the index of its model");
  reset();
  shard("Part One.safetensors", "PART two.safetensors");
  expect_success(generate({}));
}

TEST_F(CliWanError, TensorsOfAnotherShapeAreNamedWithTheirFile) {
  for (const auto& [part, tensor] : {std::pair{"transformer", "blocks.1.ffn.net.2.bias"},
                                     {"text_encoder", "encoder.final_layer_norm.weight"},
                                     {"vae", "decoder.conv_out.bias"}}) {
    reset();
    change(part, tensor, [](TinyTensor& t) {
      t.values.push_back(1.0F);
      ++t.shape[0];
    });
    fails(4, weights(part).string() + ": ");
    fails(4, std::string(tensor) + ": expected shape [");
  }
}

TEST_F(CliWanError, ConfigurationsThatDoNotFitTheirWeights) {
  configure("transformer/config.json", {{"num_layers", 1}});
  fails(4, "expected 1 layers (num_layers), got 2");
  reset();
  configure("text_encoder/config.json", {{"num_layers", 1}});
  fails(4, "text encoder: expected 1 layers (num_layers), got 2");
  reset();
  configure("model_index.json", {{"vae", nullptr}});
  fails(4,
        "model_index.json: vae: expected AutoencoderKLWan, as the transformer makes latents of "
        "16 channels, got null");
  // Heads of 12, which only the reference backend takes: found before the text is encoded.
  reset();
  const std::string narrow = (golden / "narrow").string();
  fails(3, "--backend: expected a model whose head_dim is a multiple of 8 up to 256 on cpu, got 12",
        {"--transformer", narrow});
  expect_success(generate({"--transformer", narrow, "--backend", "reference"}));
}

TEST_F(CliWanError, TensorsThatNothingReadsAreAWarning) {
  TinyTensors tensors = tensors_of(io::Checkpoint::open(weights("transformer")).value());
  tensors["blocks.0.attn3.to_q.weight"] = {{1}, {1}};
  write_tensors(weights("transformer"), tensors);
  const RunResult result = generate({});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(messages(result.err),
            "warning: weights: 1 tensors of the transformer are not used, the first is "
            "\"blocks.0.attn3.to_q.weight\"\n");
}

TEST_F(CliWanError, FoldersAndFilesNearTheModel) {
  const auto of = [&](const fs::path& path) {
    return run_vsa({"generate", "--model", path.string(), "-p", "x", "-o", video});
  };
  expect_failure(of(model / "transformer"), 4, "vsa generate", model.string() + " has one");
  expect_failure(of(weights("vae")), 4, "vsa generate", "expected a model's folder, got a file");
  // The cache of Hugging Face: the files are links into a folder of blobs.
  const fs::path blobs = dir.path() / "models--x" / "blobs";
  const fs::path snapshot = dir.path() / "models--x" / "snapshots" / "f00d";
  fs::create_directories(blobs);
  for (const fs::directory_entry& file : fs::recursive_directory_iterator(model)) {
    const fs::path inside = snapshot / fs::relative(file.path(), model);
    if (file.is_directory()) continue;
    const fs::path blob = blobs / std::to_string(std::hash<std::string>()(inside.string()));
    fs::copy_file(file.path(), blob);
    fs::create_directories(inside.parent_path());
    fs::create_symlink(fs::relative(blob, inside.parent_path()), inside);
  }
  expect_failure(of(dir.path() / "models--x"), 4, "vsa generate", snapshot.string() + " has one");
  fs::rename(model, dir.path() / "other");
  fs::create_directory_symlink(snapshot, model);
  expect_success(generate({}));
  fs::remove(fs::canonical(weights("vae")));
  fs::remove(video);
  fails(4, weights("vae").string());
}

TEST_F(CliWanError, R03_R04_SizesOfEitherSeparatorThatFitOrTheNearest) {
  fails(
      2,
      "--size: expected a width that is a multiple of 16 from 16 to 512 and a height that is one, "
      "too, got 833x481: the nearest is 512x480",
      {"--size", "833x481"});
  for (const char* size : {"512x32", "512*32"}) {
    expect_success(generate({"--size", size, "--frames", "1"}));
    EXPECT_THAT(read_file(video), testing::StartsWith("YUV4MPEG2 W512 H32"));
  }
}

TEST_F(CliWanError, R20_ADecodingThatFailsIsFinishedByAnotherVae) {
  expect_success(generate({}));
  const std::string want = read_file(video);
  fs::remove(video);
  change("vae", "decoder.conv_out.bias", make_nan);
  const RunResult result = generate({});
  expect_failure(result, 4, "vsa generate",
                 weights("vae").string() + ": VAE: \"decoder.conv_out.bias\": expected finite");
  EXPECT_THAT(result.err, HasSubstr("hint: `vsa decode " + latents));
  expect_failure(run_vsa({"decode", latents, "-o", video}), 4, "vsa decode", "decoder.conv_out");
  expect_success(run_vsa({"decode", latents, "-o", video, "--vae", (golden / "vae").string()}));
  EXPECT_EQ(read_file(video), want);
  // A run whose VAE was elsewhere is decoded by that one, and by no other part of the folder.
  fs::remove(video);
  expect_success(generate({"--vae", (golden / "vae").string(), "--latents", dir.file("l")}));
  fs::remove_all(model / "transformer");
  fs::remove_all(model / "text_encoder");
  expect_success(run_vsa({"decode", dir.file("l"), "-o", video}));
  EXPECT_EQ(read_file(video), want);
}

TEST_F(CliWanError, R21_ADiskThatFillsUpWhileFramesAreWritten) {
  expect_success(generate({"--size", "128x128", "--frames", "9"}));
  const std::string want = read_file(video);
  fs::remove(video);
  RunOptions full;
  full.max_file_bytes = 200'000;  // of a video of 222 KB; the latents take 49 KB
  expect_failure(generate({"--size", "128x128"}, full), 4, "vsa generate", video);
  EXPECT_FALSE(fs::exists(video));
  expect_success(run_vsa({"decode", latents, "-o", video}));
  EXPECT_EQ(read_file(video), want);
}

TEST_F(CliWanError, SettingsWithoutTheEffectThatIsMeant) {
  const auto warned = [&](const Args& more, const std::string& text) {
    const RunResult result = generate(more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(messages(result.err), "warning: " + text + "\n");
  };
  warned({"--guidance", "0"}, "guidance: 0 ignores the prompt; 1 turns guidance off");
  warned({"--guidance", "0.5"},
         "guidance: 0.5 leads towards the negative prompt, away from the prompt; 1 turns guidance "
         "off");
  warned({"--preview", "3"}, "preview: every 3 steps has no effect in a run of 2");
}

TEST_F(CliWanError, TheSamplerOfFewStepsBringsItsDefaults) {
  const RunResult result =
      run_vsa({"generate", "--model", model.string(), "-p", "x", "--frames", "1", "--size", "48x32",
               "--attention", "dense", "--scheduler", "few-step", "-o", video, "--json"});
  expect_success(result);
  const nlohmann::json json = result.json();
  EXPECT_EQ(json["scheduler"], "few-step");
  EXPECT_EQ(json["steps"], 3);
  EXPECT_EQ(json["guidance"], 1.0);
  EXPECT_EQ(json["shift"], 8.0);
}

TEST_F(CliWanError, ResumingWithOtherPartsIsRefused) {
  change("transformer", "blocks.1.attn2.to_k.weight", make_nan);
  expect_failure(generate({}), 4, "vsa generate", "the latents after 0 of 2 steps are in");
  fs::rename(latents, dir.file("begun"));
  const auto refused = [&](const Args& more, const std::string& text) {
    Args args = {"--resume", dir.file("begun")};
    args.insert(args.end(), more.begin(), more.end());
    fails(2, text, args);
  };
  refused({"--shift", "5"}, "--shift: expected 3.0, as the interrupted run had, got 5.0");
  refused({"--scheduler", "euler"}, "--scheduler: expected \"unipc\", as the interrupted run had");
  refused({"--lora", (golden / "lora-wan.safetensors").string()},
          "--lora: expected none, as the interrupted run had, got [{");
}

}  // namespace
}  // namespace vsa::test
