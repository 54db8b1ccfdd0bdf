// Makes a video with the runtime as a library, and says where the time went.
//
//   example_generate_video MODEL PROMPT [BACKEND] [WIDTH HEIGHT FRAMES STEPS]
//
// The first frame is written to first_frame.ppm in the current folder.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "runtime/pipeline.h"

namespace {

/// Ends the program if there was an error.
template <class T>
T value_of(vsa::Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.status().message().c_str());
    std::exit(1);
  }
  return std::move(result).value();
}

void write_first_frame(const vsa::video::Frames& frames, const char* path) {
  const auto size = static_cast<std::streamsize>(frames.height * frames.width * 3);
  std::ofstream file(path, std::ios::binary);
  file << "P6\n" << frames.width << " " << frames.height << "\n255\n";
  file.write(reinterpret_cast<const char*>(frames.rgb.data()), size);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s MODEL PROMPT [BACKEND] [WIDTH HEIGHT FRAMES STEPS]\n", argv[0]);
    return 2;
  }
  vsa::runtime::GenerateOptions options;
  options.model = argv[1];
  options.prompt = argv[2];
  options.seed = 1;
  options.sparsity = 0.875;
  if (argc > 3) options.backend = value_of(vsa::backend_from_name(argv[3]));
  if (argc > 7) {
    options.size = {.height = std::atoll(argv[5]), .width = std::atoll(argv[4])};
    options.frames = std::atoll(argv[6]);
    options.steps = std::atoll(argv[7]);
  }
  vsa::runtime::GenerateReport report;
  const vsa::video::Frames frames = value_of(vsa::runtime::generate(options, report));
  write_first_frame(frames, "first_frame.ppm");
  std::printf("%lld frames of %lldx%lld on %s\n", static_cast<long long>(frames.num_frames),
              static_cast<long long>(frames.width), static_cast<long long>(frames.height),
              report.backend.c_str());
  std::printf("text %.0f ms, load %.0f ms, denoise %.0f ms, decode %.0f ms, total %.0f ms\n",
              report.text_ms, report.load_ms, report.denoise_ms, report.decode_ms, report.total_ms);
  std::printf("memory of the device: %.2f GiB\n",
              static_cast<double>(report.peak_device_bytes) / 0x1p30);
  return 0;
}
