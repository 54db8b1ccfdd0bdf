// A model with a VAE on the command line: plan, generate, preview, resume, decode.
#include <cstdint>
#include <filesystem>

#include "tests/cli/expect.h"

namespace vsa::test {
namespace {

using Args = std::vector<std::string>;

struct CliWan : testing::Test {
  TemporaryDirectory dir;
  const std::string model = std::string(VSA_SOURCE_DIR) + "/tests/golden/wan-diffusers";
  const std::string video = dir.file("star.y4m");

  RunResult generate(const Args& more) const {
    Args args = {"generate",    "--model", model,      "-p",         "a small red star",
                 "--seed",      "7",       "--frames", "9",          "--size",
                 "48x32",       "--steps", "4",        "--guidance", "5",
                 "--attention", "dense",   "-o",       video};
    args.insert(args.end(), more.begin(), more.end());
    return run_vsa(args);
  }
};

TEST_F(CliWan, PlanCountsEveryStage) {
  const Args args = {"plan",   "--model",     model,     "--frames", "9",
                     "--size", "48x32",       "--steps", "4",        "--guidance",
                     "5",      "--attention", "dense",   "--json"};
  const RunResult result = run_vsa(args);
  expect_success(result);
  const nlohmann::json json = result.json();
  EXPECT_EQ(json["latents"], (std::vector<int>{16, 3, 4, 6}));
  EXPECT_EQ(json["grid_tokens"], (std::vector<int>{3, 2, 3}));
  EXPECT_EQ(json["passes"], 2);
  EXPECT_EQ(json["scheduler"], "unipc");
  const auto& stages = json["stages"];
  // Of a pass, by hand: both ends, products of 2 layers, self- and cross-attention of 18 tokens.
  const double n = 18, d = 32, ends = 2 * n * d * 4 * 32;
  const double layers = 2 * (12 * n * d * d + 4 * n * d * 32 + 4 * n * n * d + 4 * n * 512 * d);
  EXPECT_EQ(stages["transformer"]["flops_per_pass"].get<double>(), ends + layers);
  EXPECT_EQ(stages["transformer"]["flops_per_dense_pass"], stages["transformer"]["flops_per_pass"]);
  EXPECT_GT(stages["transformer"]["flops"].get<double>(), 8 * (ends + layers));
  EXPECT_GT(stages["text_encoder"]["flops"].get<double>(), 0);
  EXPECT_GT(stages["vae"]["flops"].get<double>(), 0);
  EXPECT_EQ(json["peak_memory_bytes"],
            std::max({stages["vae"]["memory_bytes"].get<int64_t>(),
                      stages["transformer"]["memory_bytes"].get<int64_t>(),
                      stages["text_encoder"]["memory_bytes"].get<int64_t>()}));
  const RunResult text =
      run_vsa({"plan", "--model", model, "--size", "512x480", "--attention", "dense"});
  expect_success(text);
  EXPECT_THAT(text.out, testing::HasSubstr("81 frames of 512x480 (width x height)"));
  EXPECT_THAT(text.out, testing::HasSubstr("VAE"));
}

TEST_F(CliWan, PlanOfAModelAndOfAGridAreTwoThings) {
  expect_failure(run_vsa({"plan", "--model", model, "--grid", "1,2,3"}), 2, "vsa plan",
                 "--grid: expected none beside --model, which says it");
  expect_failure(run_vsa({"plan", "--grid", "1,2,3", "--topk", "1", "--steps", "3"}), 2, "vsa plan",
                 "--steps: expected none without --model");
}

TEST_F(CliWan, APreviewIsWrittenBesideTheVideo) {
  write_file(dir.file("star.preview.png"), "somebody's");
  expect_success(generate({"--preview", "2"}));
  EXPECT_EQ(read_file(dir.file("star.preview.png")), "somebody's");
  EXPECT_THAT(read_file(dir.file("star.preview-2.png")), testing::StartsWith("\x89PNG"));
  EXPECT_THAT(read_file(video), testing::StartsWith("YUV4MPEG2 W48 H32"));
}

TEST_F(CliWan, LatentsAreDecodedByTheModelTheyNameOrAnother) {
  const std::string latents = dir.file("l.safetensors");
  expect_success(generate({"--latents", latents}));
  const std::string again = dir.file("again.y4m");
  expect_success(run_vsa({"decode", latents, "-o", again}));
  EXPECT_EQ(read_file(again), read_file(video));
  expect_success(run_vsa({"decode", latents, "-o", again, "--model", model, "--vae",
                          model + "/vae/diffusion_pytorch_model.safetensors"}));
  EXPECT_EQ(read_file(again), read_file(video));
  expect_failure(run_vsa({"decode", latents, "-o", again, "--vae",
                          std::string(VSA_SOURCE_DIR) + "/tests/golden/wan-vae-uneven"}),
                 2, "vsa decode", "wan-vae-uneven");
}

TEST_F(CliWan, OnlyAnInterruptedRunGoesOn) {
  const std::string latents = dir.file("l.safetensors");
  expect_success(generate({"--latents", latents}));
  expect_failure(generate({"--resume", latents}), 2, "vsa generate",
                 "expected latents of a run that was interrupted, got 4 of 4 steps");
  expect_failure(generate({"--resume", latents, "--shift", "5"}), 2, "vsa generate", "shift");
}

TEST_F(CliWan, ALoraHasAStrengthAndIsRecorded) {
  const std::string lora = model + "/lora-wan.safetensors";
  const auto frames = [&](const Args& more) {
    expect_success(generate(more));
    return read_file(video);
  };
  const std::string bare = frames({});
  EXPECT_EQ(frames({"--lora", lora + ":0"}), bare);
  const std::string full = frames({"--lora", lora});
  EXPECT_NE(full, bare);
  EXPECT_EQ(frames({"--lora", lora + ":1.0"}), full);
  const std::string report = dir.file("r.json");
  EXPECT_NE(frames({"--lora", lora + ":0.5", "--lora", lora + ":0.25", "--report", report}), full);
  const auto json = nlohmann::json::parse(read_file(report));
  EXPECT_EQ(json["loras"]["files"][1]["strength"], 0.25);
  EXPECT_EQ(json["loras"]["changed_tensors"], 10);
  expect_failure(generate({"--lora", lora + ":strong"}), 2, "vsa generate",
                 "expected a number from -1000 to 1000");
  expect_failure(generate({"--lora", "none.safetensors:2"}), 4, "vsa generate", "no such file");
}

}  // namespace
}  // namespace vsa::test
