// Writes the pictures of --preview. Host-only.
#include "cli/generate/preview.h"

#include <array>

#include "cli/generate/run.h"
#include "runtime/video/contact_sheet.h"
#include "runtime/video/image.h"

namespace vsa::cli {

PreviewFile::PreviewFile(const std::filesystem::path& video)
    : wanted_(beside_video(video, ".preview.png")) {}

runtime::PreviewOptions PreviewFile::every(int64_t steps) {
  return {.every = steps,
          .show = [this](int64_t, const video::Frames& frames) { return show(frames); }};
}

Status PreviewFile::show(const video::Frames& frames) {
  const std::array<video::SheetVideo, 1> one{{{&frames, ""}}};
  const auto sheet = video::contact_sheet(one, /*scale=*/1);
  VSA_TRY(sheet.status());
  const auto png = video::encode_png(*sheet);
  VSA_TRY(png.status());
  auto file = io::AtomicFile::create(written_.path.empty() ? wanted_ : written_.path);
  VSA_TRY(file.status());
  VSA_TRY(file->write(*png));
  if (!written_.path.empty()) return file->commit();
  auto written = file->commit_to_free_name();
  VSA_TRY(written.status());
  written_ = *written;
  return {};
}

}  // namespace vsa::cli
