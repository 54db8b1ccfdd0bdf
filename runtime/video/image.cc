// One 8-bit RGB picture, and PNG files.
#include "runtime/video/image.h"

#include <fmt/format.h>
#include <stb_image_write.h>

#include <algorithm>

#include "runtime/io/ascii.h"
#include "runtime/io/atomic_file.h"

namespace vsa::video {

Image Image::filled(int64_t height, int64_t width, Rgb colour) {
  Image image{height, width, std::vector<uint8_t>(static_cast<size_t>(height * width * 3))};
  image.fill(0, 0, height, width, colour);
  return image;
}

void Image::fill(int64_t y, int64_t x, int64_t fill_height, int64_t fill_width, Rgb colour) {
  const int64_t y_end = std::min(y + fill_height, height);
  const int64_t x_end = std::min(x + fill_width, width);
  for (int64_t row = std::max<int64_t>(y, 0); row < y_end; ++row) {
    for (int64_t col = std::max<int64_t>(x, 0); col < x_end; ++col) {
      std::copy(colour.begin(), colour.end(), pixel(row, col));
    }
  }
}

void paste(std::span<const uint8_t> rgb, int64_t height, int64_t width, Placement to,
           Image& image) {
  for (int64_t y = 0; y < height * to.scale; ++y) {
    for (int64_t x = 0; x < width * to.scale; ++x) {
      const int64_t source = (y / to.scale * width + x / to.scale) * 3;
      std::copy_n(rgb.data() + source, 3, image.pixel(to.y + y, to.x + x));
    }
  }
}

Result<std::string> encode_png(const Image& image) {
  if (image.height <= 0 || image.width <= 0 ||
      image.width * 3 > kMaxImageBytes / image.height) {  // both edges are below 2^31
    return invalid_argument(
        fmt::format("[write_png] image: expected at least one pixel and at most {} MiB, got {}x{}",
                    kMaxImageBytes >> 20, image.width, image.height));
  }
  std::string bytes;
  const auto append = [](void* to, void* data, int size) {
    static_cast<std::string*>(to)->append(static_cast<const char*>(data),
                                          static_cast<size_t>(size));
  };
  if (stbi_write_png_to_func(append, &bytes, static_cast<int>(image.width),
                             static_cast<int>(image.height), 3, image.rgb.data(),
                             static_cast<int>(image.width * 3)) == 0) {
    return out_of_memory("[write_png] not enough memory");
  }
  return bytes;
}

bool is_png_name(const std::filesystem::path& path) { return io::lower_extension(path) == ".png"; }

Status write_png(const std::filesystem::path& path, const Image& image, const Metadata& metadata) {
  if (!is_png_name(path)) {
    return invalid_argument(
        fmt::format("[write_png] path: expected a name ending in .png, got {}", path.string()));
  }
  const Result<std::string> bytes = encode_png(image);
  if (!bytes.ok()) return bytes.status();
  return io::write_file(path, png_with_metadata(*bytes, metadata));
}

}  // namespace vsa::video
