// Brings weights to a device while it computes. Host-only.
#include "runtime/device/weight_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/device/weight_bytes.h"
#include "runtime/nn/convert.h"
#include "runtime/nn/parallel.h"

namespace vsa::device {
namespace {

/// With all threads: one alone reads less than a device takes.
void copy(const std::byte* from, int64_t size_bytes, std::byte* to) {
  constexpr int64_t kPiece = 1 << 16;
  nn::parallel_rows((size_bytes + kPiece - 1) / kPiece, [&](const nn::RowBlock& pieces) {
    const int64_t begin = pieces.begin * kPiece;
    const int64_t end = std::min(pieces.end * kPiece, size_bytes);
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
  });
}

}  // namespace

Result<std::unique_ptr<WeightStream>> WeightStream::make(const Memory& memory) {
  std::unique_ptr<WeightStream> made(new WeightStream);
  Result<DeviceStream> stream = memory.device().make_stream();
  VSA_TRY(stream.status());
  made->stream_ = std::move(*stream);
  for (Part& part : made->parts_) {
    Result<PinnedMemory> pinned = memory.device().make_pinned(kPartBytes);
    VSA_TRY(pinned.status());
    part.memory = std::move(*pinned);
    Result<DeviceEvent> event = memory.device().make_event();
    VSA_TRY(event.status());
    part.copied = std::move(*event);
  }
  return made;
}

WeightStream::~WeightStream() {
  // A device that no longer answers says so in the next call that can report it.
  if (!stream_.empty()) static_cast<void>(stream_.wait());
}

template <class Fill>
Status WeightStream::bring_parts(void* to, DType dtype, int64_t num_elements, const Fill& fill) {
  const int64_t most = kPartBytes / size_bytes(dtype);
  for (int64_t first = 0; first < num_elements; first += most) {
    const int64_t count = std::min(most, num_elements - first);
    const Part& part = parts_[next_];
    next_ = 1 - next_;
    VSA_TRY(part.copied.wait());
    fill(first, count, static_cast<std::byte*>(part.memory.data()));
    VSA_TRY(stream_.copy_in(static_cast<std::byte*>(to) + first * size_bytes(dtype), part.memory, 0,
                            count * size_bytes(dtype)));
    VSA_TRY(stream_.record(part.copied));
  }
  return {};
}

Status WeightStream::bring(void* to, DType dtype, const nn::Weight& weight) {
  const int64_t size = size_bytes(dtype);
  if (const auto stored = as_stored(weight, dtype); !stored.empty()) {
    return bring_parts(to, dtype, weight.num_elements(),
                       [&](int64_t first, int64_t count, std::byte* part) {
                         copy(stored.data() + first * size, count * size, part);
                       });
  }
  const std::vector<float> values = nn::values(weight);
  return bring_parts(
      to, dtype, std::ssize(values), [&](int64_t first, int64_t count, std::byte* part) {
        round_to(dtype,
                 std::span(values).subspan(static_cast<size_t>(first), static_cast<size_t>(count)),
                 part);
      });
}

}  // namespace vsa::device
