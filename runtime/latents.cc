// The latents file: a video between sampling and decoding. Host-only.
#include "runtime/latents.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "runtime/io/printable.h"
#include "runtime/io/safetensors.h"
#include "runtime/io/safetensors_writer.h"
#include "runtime/nn/elementwise.h"
#include "runtime/video/write_video.h"
#include "vsa/version.h"

namespace vsa::runtime {
namespace {

constexpr const char* kTensor = "latents";
constexpr std::string_view kState = "sampler.";  // and the name of the sampler's tensor

/// Reads metadata fields; the first fault is kept.
class Fields {
 public:
  Fields(const io::Metadata& metadata, std::string file)
      : metadata_(metadata), file_(std::move(file)) {}

  std::string text(const char* key) {
    const auto found = metadata_.find(key);
    if (found != metadata_.end()) return found->second;
    fail(fmt::format("metadata {}: expected a value, got none: not a latents file of vsa?", key));
    return {};
  }

  template <class T>
  T number(const char* key) {
    const std::string digits = text(key);
    T value{};
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      fail(fmt::format("metadata {}: expected a number, got {}", key, io::printable(digits)));
    }
    return value;
  }

  const Status& status() const { return status_; }

 private:
  void fail(const std::string& what) {
    if (status_.ok()) status_ = io_error(fmt::format("[decode] {}: {}", file_, what));
  }
  const io::Metadata& metadata_;
  std::string file_;
  Status status_;
};

}  // namespace

Result<io::WrittenFile> save_latents(const std::filesystem::path& path, const Latents& latents,
                                     LatentsName name) {
  const io::TensorView view{.type = io::StorageType::kF32,
                            .shape = latents.shape,
                            .bytes = std::as_bytes(latents.values.span())};
  const auto number = [](auto value) { return fmt::format("{}", value); };
  const io::Metadata metadata = {{"vsa.version", VSA_VERSION_STRING},
                                 {"vsa.space", latents.space},
                                 {"vsa.model", latents.model},
                                 {"vsa.vae", latents.vae},
                                 {"vsa.variant", latents.variant},
                                 {"vsa.transformer_sha256", latents.transformer_sha256},
                                 {"vsa.prompt", latents.prompt},
                                 {"vsa.negative_prompt", latents.negative_prompt},
                                 {"vsa.seed", number(latents.seed)},
                                 {"vsa.steps", number(latents.steps)},
                                 {"vsa.steps_done", number(latents.steps_done)},
                                 {"vsa.guidance", number(latents.guidance)},
                                 {"vsa.shift", number(latents.shift)},
                                 {"vsa.fps", number(latents.fps)},
                                 {"vsa.scheduler", latents.scheduler},
                                 {"vsa.attention", latents.attention},
                                 {"vsa.topk", number(latents.topk)},
                                 {"vsa.made_by", latents.made_by}};
  io::TensorMap tensors = {{kTensor, view}};
  for (const LatentsState& state : latents.state) {
    tensors[std::string(kState) + state.name] = {.type = io::StorageType::kF32,
                                                 .shape = latents.shape,
                                                 .bytes = std::as_bytes(state.values.span())};
  }
  if (name == LatentsName::kFree) return io::write_new_safetensors(path, tensors, metadata);
  VSA_TRY(io::write_safetensors(path, tensors, metadata));
  return io::WrittenFile{.path = path};
}

namespace {

/// The tensors `sampler.*`.
Status load_state(const io::SafetensorsFile& file, const std::string& path, Latents& latents) {
  for (const auto& [name, view] : file.tensors()) {
    if (!name.starts_with(kState)) continue;
    if (view.type != io::StorageType::kF32 || view.shape != latents.shape) {
      return io_error(fmt::format("[decode] {}: {}: expected F32 of the shape of latents, got {}",
                                  path, io::printable(name), io::to_string(view)));
    }
    LatentsState& state = latents.state.emplace_back(LatentsState{
        .name = name.substr(kState.size()), .values = nn::Buffer(latents.values.size())});
    VSA_TRY(io::copy_as_f32(view, state.values.span()));
    if (!nn::all_finite(state.values.span())) {
      return io_error(fmt::format("[decode] {}: {}: expected finite values, got NaN or infinity",
                                  path, io::printable(name)));
    }
  }
  return {};
}

}  // namespace

Result<Latents> load_latents(const std::filesystem::path& path) {
  const Result<io::SafetensorsFile> file = io::SafetensorsFile::open(path);
  if (!file.ok()) return file.status();
  const io::TensorView* view = file->find(kTensor);
  const auto fail = [&](const std::string& what) {
    return io_error(fmt::format("[decode] {}: {}", path.string(), what));
  };
  if (view == nullptr) return fail("latents: expected a tensor, got none");
  if (view->type != io::StorageType::kF32 || view->shape.size() != 4 || view->bytes.empty()) {
    return fail(fmt::format("latents: expected F32 [channels,frames,height,width], got {}",
                            io::to_string(*view)));
  }
  Fields fields(file->metadata(), path.string());
  Latents latents{.values = nn::Buffer(view->num_elements()),
                  .shape = view->shape,
                  .space = fields.text("vsa.space"),
                  .model = fields.text("vsa.model"),
                  .transformer_sha256 = fields.text("vsa.transformer_sha256"),
                  .prompt = fields.text("vsa.prompt"),
                  .negative_prompt = fields.text("vsa.negative_prompt"),
                  .seed = fields.number<int64_t>("vsa.seed"),
                  .steps = fields.number<int64_t>("vsa.steps"),
                  .steps_done = fields.number<int64_t>("vsa.steps_done"),
                  .guidance = fields.number<double>("vsa.guidance"),
                  .shift = fields.number<double>("vsa.shift"),
                  .fps = fields.number<double>("vsa.fps"),
                  .attention = fields.text("vsa.attention"),
                  .topk = fields.number<int64_t>("vsa.topk"),
                  .made_by = {}};
  // Fields that files of old versions lack.
  const auto optional = [&](const char* key, std::string& text) {
    const auto found = file->metadata().find(key);
    if (found != file->metadata().end()) text = found->second;
  };
  optional("vsa.vae", latents.vae);
  optional("vsa.variant", latents.variant);
  optional("vsa.scheduler", latents.scheduler);
  optional("vsa.made_by", latents.made_by);
  VSA_TRY(fields.status());
  if (latents.steps < 1 || latents.steps_done < 0 || latents.steps_done > latents.steps) {
    return fail(fmt::format("metadata vsa.steps_done: expected 0 to vsa.steps, got {} of {}",
                            latents.steps_done, latents.steps));
  }
  if (!(latents.fps > 0.0 && latents.fps <= video::kMaxFps)) {
    return fail(fmt::format("metadata vsa.fps: expected more than 0 and at most {}, got {}",
                            video::kMaxFps, latents.fps));
  }
  VSA_TRY(io::copy_as_f32(*view, latents.values.span()));
  if (!nn::all_finite(latents.values.span())) {
    return fail("latents: expected finite values, got NaN or infinity");
  }
  VSA_TRY(load_state(*file, path.string(), latents));
  return latents;
}

}  // namespace vsa::runtime
