// Whole runs of a tiny Wan2.1 against diffusers' WanPipeline, and runs that fail or are stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "runtime/io/safetensors_writer.h"
#include "runtime/latents.h"
#include "runtime/model_folder.h"
#include "runtime/pipeline.h"
#include "runtime/preview.h"
#include "runtime/run_weights.h"
#include "runtime/text_stage.h"
#include "runtime/vae_stage.h"
#include "tests/runtime_support/rename.h"
#include "tests/runtime_support/stored_tensors.h"
#include "tests/support/compare.h"
#include "tests/unit/runtime/io/files.h"

namespace vsa::runtime {
namespace {

namespace fs = std::filesystem;
using sampler::SchedulerKind;
using testing::AllOf;
using testing::HasSubstr;

const fs::path kFolder = fs::path(VSA_SOURCE_DIR) / "tests/golden/wan-diffusers";
// Four steps with guidance 5 multiply the rounding of a pass, which is below 1e-6.
constexpr double kRelativeL2 = 1e-4;

class WanPipelineGolden : public testing::Test {
 protected:
  static GenerateOptions options_of(SchedulerKind kind) {
    GenerateOptions options;
    options.model = kFolder;
    options.prompt = "a small red star moving left";
    options.seed = 7;
    options.frames = 9;
    options.size = FrameSize{.height = 32, .width = 48};
    options.attention = Attention::kDense;
    options.scheduler = kind;
    options.steps = kind == SchedulerKind::kFewStep ? 3 : 4;
    options.guidance = kind == SchedulerKind::kFewStep ? 1.0 : 5.0;
    options.shift = kind == SchedulerKind::kFewStep ? 8.0 : 3.0;
    return options;
  }
  GenerateOptions options(SchedulerKind kind = SchedulerKind::kUniPc) const {
    GenerateOptions options = options_of(kind);
    options.latents = folder_ / "latents.safetensors";
    return options;
  }

  std::vector<float> golden(const std::string& name) const {
    return test::golden_tensor(expected_, name).values;
  }

  /// Runs, and compares the latents that were saved.
  void expect_golden_latents(const GenerateOptions& options) {
    const auto frames = generate(options, report_);
    ASSERT_TRUE(frames.ok()) << frames.status().message();
    const Latents latents = load_latents(options.latents).value();
    EXPECT_EQ(latents.space, kWanSpace);
    const std::vector<float> want = golden(latents.scheduler + ".latents");
    ASSERT_EQ(latents.values.size(), std::ssize(want));
    const auto flat = [&](const float* data) {
      return ConstTensor::bhsd(data, DType::kF32, {.seq_len = 1, .head_dim = std::ssize(want)});
    };
    EXPECT_LT(test::relative_l2(flat(latents.values.data()), flat(want.data())), kRelativeL2)
        << latents.scheduler;
  }

  /// A part of the model as a single file under Wan's names.
  fs::path in_wan_names(Part part) const {
    const ModelFolder model = ModelFolder::open(kFolder).value();
    const io::Checkpoint checkpoint = part == Part::kTransformer ? model.open_transformer().value()
                                      : part == Part::kTextEncoder
                                          ? model.open_text_encoder().value()
                                          : model.open_vae().value();
    const test::TinyTensors tensors = test::tensors_of(checkpoint);
    const fs::path file = folder_ / (std::string(name(part)) + ".safetensors");
    test::write_tensors(file, part == Part::kTransformer   ? test::with_wan_names(tensors)
                              : part == Part::kTextEncoder ? test::with_wan_t5_names(tensors)
                                                           : test::with_wan_vae_names(tensors, 1));
    return file;
  }

  /// A file as ComfyUI saves a checkpoint: all parts, and what it keeps of its own beside them.
  fs::path all_in_one(const ModelFolder& model) const {
    test::TinyTensors tensors;
    const auto add = [&](const std::string& prefix, const test::TinyTensors& part) {
      for (const auto& [name, tensor] : part) tensors[prefix + name] = tensor;
    };
    add("model.diffusion_model.",
        test::with_wan_names(test::tensors_of(model.open_transformer().value())));
    add("text_encoders.umt5xxl.transformer.", test::tensors_of(model.open_text_encoder().value()));
    add("vae.", test::with_wan_vae_names(test::tensors_of(model.open_vae().value()), 1));
    tensors["text_encoders.umt5xxl.logit_scale"] = {{1}, {4.6F}};
    // Its encoder, which is not read, under a name that packed transformers have in theirs.
    tensors["vae.quant_conv.weight"] = {{1}, {1.0F}};
    io::TensorMap views;
    for (const auto& [name, tensor] : tensors) {
      views.emplace(name, io::TensorView{io::StorageType::kF32, tensor.shape,
                                         std::as_bytes(std::span(tensor.values))});
    }
    const std::vector<std::byte> tokenizer(100, std::byte{7});
    views.emplace("text_encoders.spiece_model",
                  io::TensorView{io::StorageType::kU8, {100}, tokenizer});
    const fs::path file = folder_ / "wan2.1_t2v_all.safetensors";
    throw_if_error(io::write_safetensors(file, views, {{"format", "pt"}}));
    return file;
  }

  /// A copy of the model that a test may spoil.
  fs::path copy_of_model() const {
    fs::copy(kFolder, folder_ / "model", fs::copy_options::recursive);
    return folder_ / "model";
  }
  /// Makes one number of a part NaN.
  static void spoil(const fs::path& file, const std::string& tensor) {
    const auto checkpoint = io::Checkpoint::open(file).value();
    test::TinyTensors tensors = test::tensors_of(checkpoint);
    tensors.at(tensor).values[1] = std::numeric_limits<float>::quiet_NaN();
    test::write_tensors(file, tensors);
  }

  test::ScratchDirectory folder_;
  GenerateReport report_;
  io::SafetensorsFile expected_ =
      io::SafetensorsFile::open(kFolder / "expected.safetensors").value();
};

TEST_F(WanPipelineGolden, EverySchedulerUnderBothNamings) {
  const PartPaths wan{.transformer = in_wan_names(Part::kTransformer),
                      .vae = in_wan_names(Part::kVae),
                      .text_encoder = in_wan_names(Part::kTextEncoder)};
  for (const SchedulerKind kind : sampler::kSchedulerKinds) {
    GenerateOptions run = options(kind);
    expect_golden_latents(run);
    EXPECT_EQ(report_.transformer.naming, "diffusers");
    EXPECT_EQ(report_.vae.naming, "diffusers");
    run.choice.parts = wan;
    expect_golden_latents(run);
    EXPECT_EQ(report_.transformer.naming, "wan");
    EXPECT_EQ(report_.vae.naming, "wan");
  }
}

TEST_F(WanPipelineGolden, AFileOfComfyUiThatHoldsAllPartsIsEachOfThem) {
  const ModelFolder whole = ModelFolder::open(kFolder).value();
  const fs::path file = all_in_one(whole);
  // Of the model's folder, what describes it is left.
  const fs::path model = copy_of_model();
  fs::remove(model / "transformer" / "diffusion_pytorch_model.safetensors");
  fs::remove_all(model / "text_encoder");
  fs::remove(model / "vae" / "diffusion_pytorch_model.safetensors");

  GenerateOptions run = options();
  run.model = model;
  run.choice.parts = {.transformer = file, .vae = file, .text_encoder = file};
  expect_golden_latents(run);
  EXPECT_EQ(report_.transformer.naming, "wan");
  EXPECT_EQ(report_.vae.naming, "wan");
  for (const WeightsReport* part : {&report_.transformer, &report_.text_encoder, &report_.vae}) {
    EXPECT_EQ(part->unused, std::vector<std::string>{});
  }
  EXPECT_EQ(report_.transformer.loaded, std::ssize(whole.open_transformer().value().tensors()));
  EXPECT_EQ(std::ranges::count(report_.files, file.string(), &FileReport::path), 1);
  // Each part counts with its own tensors, not with the whole file.
  const ModelFolder from_file = ModelFolder::open(model, run.choice).value();
  EXPECT_EQ(from_file.open_text_encoder().value().num_bytes(),
            whole.open_text_encoder().value().num_bytes());
  EXPECT_EQ(from_file.open_transformer().value().num_bytes(),
            whole.open_transformer().value().num_bytes());
  EXPECT_EQ(decode({.latents = run.latents, .vae = file}).value().frames.rgb,
            decode({.latents = run.latents, .model = kFolder}).value().frames.rgb);
}

TEST_F(WanPipelineGolden, FramesAreThoseOfDiffusers) {
  std::vector<uint8_t> fed;
  GenerateOptions run = options();
  run.feed = {
      .begin =
          [&](int64_t frames, int64_t height, int64_t width) {
            fed.reserve(static_cast<size_t>(frames * height * width * 3));
          },
      .add = [&](std::span<const uint8_t> rgb) { fed.insert(fed.end(), rgb.begin(), rgb.end()); }};
  const video::Frames frames = generate(run, report_).value();
  ASSERT_EQ(frames.num_frames, 9);
  ASSERT_EQ(frames.height, 32);
  ASSERT_EQ(frames.width, 48);
  EXPECT_EQ(fed, frames.rgb);
  const std::vector<float> want = golden("unipc.frames");  // [frames, 3, height, width]
  double largest = 0.0;
  const int64_t pixels = frames.height * frames.width;
  for (int64_t i = 0; i < std::ssize(want); ++i) {
    const int64_t frame = i / (3 * pixels);
    const int64_t channel = i / pixels % 3;
    const uint8_t got =
        frames.rgb[static_cast<size_t>((frame * pixels + i % pixels) * 3 + channel)];
    // Bytes are cut off: from 0 to 1 below the number, but for its rounding.
    largest = std::max(largest, std::abs(want[static_cast<size_t>(i)] * 255.0 - got - 0.5));
  }
  EXPECT_LT(largest, 0.51);
}

TEST_F(WanPipelineGolden, R24_TheSameSeedGivesTheSameBytesWithAnyThreads) {
  GenerateOptions run = options();
  run.num_threads = 1;
  const video::Frames one = generate(run, report_).value();
  run.num_threads = 3;
  EXPECT_EQ(generate(run, report_).value().rgb, one.rgb);
  run.seed = 8;
  EXPECT_NE(generate(run, report_).value().rgb, one.rgb);
}

TEST_F(WanPipelineGolden, SparseAttentionRunsAndIsReported) {
  GenerateOptions run = options();
  run.attention = Attention::kVsa;
  run.tile = TileShape{1, 2, 3};
  EXPECT_THAT(generate(run, report_).status().message(),
              HasSubstr("sparsity: expected a value, got none"));
  run.topk = 1;
  run.dense_layers = {1};
  ASSERT_TRUE(generate(run, report_).ok());
  EXPECT_NEAR(report_.kept_share, (1.0 / 3 + 1.0) / 2, 1e-9);
  EXPECT_THAT(report_.warnings, testing::Contains(HasSubstr("no to_gate_compress")));
}

TEST_F(WanPipelineGolden, W21_AnEmptyNegativePromptIsEncodedNotZeros) {
  const ModelFolder model = ModelFolder::open(kFolder).value();
  const auto weights = RunWeights::open(options(), model, report_).value();
  RunPlan guided;
  guided.guidance = 2.0;
  const Texts texts = encode_texts(options(), model, guided, *weights, report_).value();
  EXPECT_EQ(texts.negative.num_valid, 1);  // the end of the text
  EXPECT_EQ(texts.negative.num_rows, 512);
  const auto row = texts.negative.rows.span().first(24);
  EXPECT_GT(std::ranges::count_if(row, [](float x) { return std::abs(x) > 0.1F; }), 12);
  // EverySchedulerUnderBothNamings compares what guidance against it gives.
}

TEST_F(WanPipelineGolden, PreviewsShowThePredictedVideo) {
  GenerateOptions run = options();
  std::vector<int64_t> steps;
  std::vector<video::Frames> pictures;
  run.preview = {.every = 2, .show = [&](int64_t step, const video::Frames& frames) {
                   steps.push_back(step);
                   pictures.push_back(frames);
                   return Status();
                 }};
  ASSERT_TRUE(generate(run, report_).ok());
  EXPECT_EQ(steps, (std::vector<int64_t>{1, 3}));
  // The last prediction is what the run ends with.
  const ModelFolder model = ModelFolder::open(kFolder).value();
  const io::Checkpoint vae = model.open_vae().value();
  const auto colours = LatentColours::fit(*load_decoder(*model.vae, vae).value()).value();
  const Latents latents = load_latents(run.latents).value();
  const video::Frames last = colours.picture(latents.values.span(), latents.shape);
  ASSERT_EQ(last.num_frames, 3);
  ASSERT_EQ(last.height, 4);
  ASSERT_EQ(last.width, 6);
  ASSERT_EQ(pictures[1].rgb.size(), last.rgb.size());
  int different = 0;
  for (size_t i = 0; i < last.rgb.size(); ++i) {
    EXPECT_NEAR(pictures[1].rgb[i], last.rgb[i], 1) << i;
    if (pictures[0].rgb[i] != last.rgb[i]) ++different;
  }
  EXPECT_GT(different, 100);  // of 216: the picture moves
  // A picture that cannot be shown ends the run, with the latents kept.
  run.preview.show = [](int64_t, const video::Frames&) { return io_error("no room"); };
  const Status failed = generate(run, report_).status();
  EXPECT_EQ(failed.code(), StatusCode::kIoError);
  EXPECT_THAT(failed.message(), HasSubstr("the latents after 1 of 4 steps are in"));
}

TEST_F(WanPipelineGolden, R20_R29_AStoppedDecodingIsFinishedFromTheLatents) {
  const video::Frames want = generate(options(), report_).value();
  for (const Progress::Stage stage :
       {Progress::Stage::kText, Progress::Stage::kDenoise, Progress::Stage::kDecode}) {
    std::atomic<bool> cancel = false;
    GenerateOptions run = options();
    fs::remove(run.latents);
    run.cancel = &cancel;
    run.on_progress = [&](const Progress& progress) {
      if (progress.stage == stage) cancel = true;
    };
    const Status status = generate(run, report_).status();
    EXPECT_EQ(status.code(), StatusCode::kCancelled) << status.message();
    EXPECT_EQ(fs::exists(run.latents), stage != Progress::Stage::kText);
  }
  const Decoded decoded = decode({.latents = options().latents}).value();
  EXPECT_EQ(decoded.steps_done, 4);
  EXPECT_EQ(decoded.frames.rgb, want.rgb);
  EXPECT_EQ(
      decode({.latents = options().latents, .vae = in_wan_names(Part::kVae)}).value().frames.rgb,
      want.rgb);
}

TEST_F(WanPipelineGolden, ANumberThatIsNoneIsTracedToItsTensor) {
  const fs::path model = copy_of_model();
  GenerateOptions run = options();
  run.model = model;
  const auto refused = [&](const std::string& tensor) {
    const Status status = generate(run, report_).status();
    EXPECT_EQ(status.code(), StatusCode::kIoError) << status.message();
    EXPECT_THAT(status.message(), AllOf(HasSubstr(tensor), HasSubstr("got NaN at element 1")));
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
  };
  spoil(model / "vae" / "diffusion_pytorch_model.safetensors", "decoder.conv_in.weight");
  refused("VAE: \"decoder.conv_in.weight\"");
  EXPECT_TRUE(fs::exists(run.latents));  // R20: hours of sampling are not lost
  spoil(model / "transformer" / "diffusion_pytorch_model.safetensors",
        "blocks.1.attn2.to_k.weight");
  refused("transformer: \"blocks.1.attn2.to_k.weight\"");
  spoil(model / "text_encoder" / "model.safetensors",
        "encoder.block.1.layer.1.DenseReluDense.wi_1.weight");
  refused("text encoder: \"encoder.block.1.layer.1.DenseReluDense.wi_1.weight\"");
}

TEST_F(WanPipelineGolden, R28_AVaeOfAnotherModelIsRefusedBeforeAnythingRuns) {
  GenerateOptions run = options();
  run.choice.parts.vae = fs::path(VSA_SOURCE_DIR) / "tests/golden/wan-vae-uneven";
  bool began = false;
  run.on_progress = [&](const Progress&) { began = true; };
  const Status status = generate(run, report_).status();
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("wan-vae-uneven"), HasSubstr("transformer"), HasSubstr("16")));
  EXPECT_FALSE(began);
}

TEST_F(WanPipelineGolden, R02_R03_SizesThatDoNotFitNameTheNearest) {
  const auto nearest = [&](int64_t frames, FrameSize size) {
    GenerateOptions run = options();
    run.frames = frames;
    run.size = size;
    const Status status = generate(run, report_).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.message();
    return status.message().substr(status.message().find(": the nearest is ") + 17);
  };
  for (const auto& [frames, want] :
       {std::pair<int64_t, const char*>{15, "17"}, {16, "17"}, {24, "25"}, {35, "37"}, {0, "1"}}) {
    EXPECT_EQ(nearest(frames, {32, 48}), want) << frames;
  }
  EXPECT_EQ(nearest(9, {481, 49}), "48x480");
  EXPECT_EQ(nearest(9, {32, 833}), "512x32");  // RoPE's tables of this model end there
}

TEST_F(WanPipelineGolden, MissingPartsAreNamedBeforeAnythingRuns) {
  const fs::path model = copy_of_model();
  GenerateOptions run = options();
  run.model = model;
  bool began = false;
  run.on_progress = [&](const Progress&) { began = true; };
  fs::rename(model / "vae" / "diffusion_pytorch_model.safetensors", folder_ / "vae.safetensors");
  EXPECT_THAT(generate(run, report_).status().message(), HasSubstr("vae: expected weights"));
  // An index that names a shard that is not there.
  test::write_text(model / "vae" / "diffusion_pytorch_model.safetensors.index.json",
                   R"({"weight_map": {"decoder.conv_in.weight": "diffusion-1.safetensors"}})");
  EXPECT_THAT(generate(run, report_).status().message(), HasSubstr("diffusion-1.safetensors"));
  EXPECT_FALSE(began);
}

TEST_F(WanPipelineGolden, TheMapOfPreviewsIsNearTheDecoder) {
  const ModelFolder model = ModelFolder::open(kFolder).value();
  const io::Checkpoint vae = model.open_vae().value();
  const auto decoder = load_decoder(*model.vae, vae).value();
  const auto colours = LatentColours::fit(*decoder).value();
  // Equal latents everywhere: the middle of the decoded frame has about the colour of the picture.
  Latents latents;
  latents.values = nn::Buffer(16 * 9 * 9);
  latents.shape = {16, 1, 9, 9};
  for (int64_t i = 0; i < latents.values.size(); ++i) {
    latents.values.data()[i] = (i / 81) % 2 == 0 ? 0.5F : -0.5F;
  }
  const video::Frames picture = colours.picture(latents.values.span(), latents.shape);
  const video::Frames frame = decode_latents(latents, *decoder, {}).value();
  const auto middle = static_cast<size_t>((36 * 72 + 36) * 3);
  for (size_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(picture.rgb[(4 * 9 + 4) * 3 + c], frame.rgb[middle + c], 64) << c;
  }
}

}  // namespace
}  // namespace vsa::runtime
