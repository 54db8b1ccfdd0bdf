// The path of a block from the caller's memory to what wgmma reads, on the host: a model of the
// copy engine and of the matrix descriptors, written from the manual and sharing nothing with the
// kernel but the numbers under test.
#include <gtest/gtest.h>

#include <vector>

#include "src/cuda/fine/sm90/box_plan.h"
#include "src/cuda/fine/sm90/descriptor.h"
#include "src/cuda/plan/plan.h"

namespace vsa::cuda::sm90 {
namespace {

/// Copies one box as cp.async.bulk.tensor does with a 128-byte swizzle: elements in the order of
/// the box, 16-byte pieces exchanged by address bits 7 to 9.
void copy_box(const BoxPlan& box, const std::array<int64_t, 5>& at, std::vector<uint16_t>& smem,
              uint32_t to) {
  std::array<int64_t, 5> i{};
  uint32_t n = 0;
  for (i[4] = 0; i[4] < box.box[4]; ++i[4]) {
    for (i[3] = 0; i[3] < box.box[3]; ++i[3]) {
      for (i[2] = 0; i[2] < box.box[2]; ++i[2]) {
        for (i[1] = 0; i[1] < box.box[1]; ++i[1]) {
          for (i[0] = 0; i[0] < box.box[0]; ++i[0], ++n) {
            int64_t offset = (at[0] + i[0]) * 2;
            bool inside = true;
            for (size_t axis = 0; axis < 5; ++axis) {
              const int64_t c = at[axis] + i[axis];
              inside = inside && c >= 0 && c < static_cast<int64_t>(box.size[axis]);
              if (axis > 0) offset += c * static_cast<int64_t>(box.stride_bytes[axis - 1]);
            }
            ASSERT_TRUE(inside) << "the kernel never asks for what is outside";
            const uint32_t address = to + n * 2;
            const uint32_t swapped = address ^ ((address >> 7 & 7U) << 4);
            smem[swapped / 2] =
                *reinterpret_cast<const uint16_t*>(static_cast<const uint8_t*>(box.base) + offset);
          }
        }
      }
    }
  }
}

/// Byte that a descriptor with 128-byte swizzle names: `inner` elements along the contiguous axis
/// of the matrix, `outer` across it. Canonical layouts of the PTX manual (9.7.15.5.1), 16-bit
/// types:
///   inner: 64 in a row, then the leading offset;  outer: 8 rows of 128 bytes, then the stride
///   offset
uint32_t named_byte(uint64_t descriptor, uint32_t inner, uint32_t outer) {
  const auto start = static_cast<uint32_t>(descriptor & 0x3FFF) << 4;
  const auto leading = static_cast<uint32_t>(descriptor >> 16 & 0x3FFF) << 4;
  const auto stride = static_cast<uint32_t>(descriptor >> 32 & 0x3FFF) << 4;
  const uint32_t address =
      start + inner / 64 * leading + inner % 64 * 2 + outer / 8 * stride + outer % 8 * 128;
  return address ^ ((address >> 7 & 7U) << 4);
}

struct Layout {
  const char* name;
  std::array<int64_t, 3> stride;  // batch, head, seq, for 2 batch items, 3 heads, S tokens
};

std::vector<Layout> layouts(int64_t s, int64_t d) {
  return {{"bshd", {s * 3 * d, d, 3 * d}},
          {"bhsd", {3 * s * d, s * d, d}},
          {"fused", {s * 9 * d, d, 9 * d}},
          {"one kv head for all", {s * d, 0, d}}};
}

/// Loads block after block as the producer does and compares every row with the tensor.
void expect_loads(const TilePlan& plan, int64_t head_dim) {
  const PlanImage image = plan_image("test", plan).value();
  const int64_t s = plan.seq_len();
  // The copy of a plan that is neither of cuboids nor of runs is in compact order: row i is i.
  for (const Layout& layout : layouts(s, head_dim)) {
    SCOPED_TRACE(layout.name);
    std::vector<uint16_t> memory(static_cast<size_t>(2 * 9 * s * head_dim));
    for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<uint16_t>(i * 40503U >> 3);
    const ConstTensor tensor = [&] {
      ConstTensor t = ConstTensor::bshd(memory.data(), DType::kBF16, {2, 3, s, head_dim});
      t.stride = {layout.stride[0], layout.stride[1], layout.stride[2], 1};
      return t;
    }();
    const TensorPlan boxes = plan_boxes({"fine", "k"}, tensor, image.shape).value();
    std::vector<uint16_t> smem(2 * kSlabBytes / 2);
    for (int64_t head = 0; head < 6; ++head) {
      const int64_t b = head / 3;
      const int64_t h = head % 3;
      const int64_t u = b * boxes.step.batch + h * boxes.step.head;
      for (int32_t i = 0; i < image.shape.num_blocks(); ++i) {
        const int32_t tile = i / image.shape.blocks_per_tile;
        const Run run = tile < image.shape.num_runs ? image.runs[static_cast<size_t>(tile)] : Run{};
        const Block block = make_block(image.shape, tile, i % image.shape.blocks_per_tile, run);
        for (int64_t slab = 0; slab < head_dim / 64; ++slab) {
          const auto to = static_cast<uint32_t>(slab * kSlabBytes);
          if (block.len() == 0) continue;
          if (block.kind() != Block::kRun) {
            copy_box(boxes.boxes[block.kind()], {slab * 64, block.w, block.h, block.f, u}, smem,
                     to);
            continue;
          }
          int32_t done = 0;
          for (int bit = 6; bit >= 0; --bit) {
            if ((block.len() >> bit & 1) == 0) continue;
            copy_box(boxes.boxes[static_cast<size_t>(kRunBox + bit)],
                     {slab * 64, block.w + done, 0, 0, u}, smem,
                     to + static_cast<uint32_t>(done * kRowBytes));
            done += 1 << bit;
          }
        }
        for (int32_t r = 0; r < block.len(); ++r) {
          const int64_t from = b * layout.stride[0] + h * layout.stride[1] +
                               position_of(image.shape, block, r) * layout.stride[2];
          for (int64_t d = 0; d < head_dim; ++d) {
            const auto address =
                static_cast<uint32_t>(d / 64 * kSlabBytes) +
                swizzled(static_cast<uint32_t>(r), static_cast<uint32_t>(d % 64 / 8)) +
                static_cast<uint32_t>(d % 8 * 2);
            ASSERT_EQ(smem[address / 2], memory[static_cast<size_t>(from + d)])
                << "block " << i << " row " << r << " element " << d;
          }
        }
      }
    }
  }
}

TEST(BoxPlan, LoadsEveryBlockOfEveryLayout) {
  expect_loads(TilePlan::grid({5, 6, 7}, {4, 4, 4}).value(), 128);
  expect_loads(TilePlan::grid({5, 9, 18}, {4, 8, 8}).value(), 64);
  expect_loads(TilePlan::grid({2, 17, 18}, {1, 16, 16}).value(), 64);
  expect_loads(TilePlan::grid({4, 10, 11}, {3, 9, 9}).value(), 64);
  const std::vector<int64_t> segments{77, 13};
  expect_loads(TilePlan::packed(segments, {5, 6, 7}, {4, 4, 4}).value(), 64);
  const std::vector<int32_t> lens{64, 1, 0, 37, 63};
  expect_loads(TilePlan::tiled(lens, 64).value(), 128);
  expect_loads(TilePlan::tiled(lens, 64).value().in_compact_order(), 128);
  expect_loads(TilePlan::packed(segments, {5, 6, 7}, {.order = TokenOrder::kGilbert}).value(), 64);
}

/// Layouts that the copy engine cannot read are refused under the names of the call.
TEST(BoxPlan, RefusesStridesThatTheCopyEngineCannotRead) {
  const PlanShape plan = plan_image("test", TilePlan::grid({4, 8, 8}, {4, 4, 4}).value())->shape;
  alignas(16) static uint16_t nothing[8];
  constexpr int64_t kMost = (int64_t{1} << 40) / 2;  // elements in 2^40 bytes
  const std::array<int64_t, 3> wrong[] = {
      {64, 64, -64}, {64, 64, 0}, {-64, 64, 64}, {kMost, kMost, 64}, {64, 64, kMost / 64}};
  for (const auto& [batch, head, seq] : wrong) {
    ConstTensor t = ConstTensor::bhsd(nothing, DType::kBF16, {2, 2, 256, 64});
    t.stride = {batch, head, seq, 1};
    const Status status = plan_boxes({"attention_backward", "dout"}, t, plan).status();
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_EQ(status.message().find("[attention_backward] dout: expected positive strides below "
                                    "2^40 bytes on the cuda backend, got ["),
              0U)
        << status.message();
  }
  ConstTensor t = ConstTensor::bhsd(nothing, DType::kBF16, {2, 2, 256, 64});
  t.stride = {kMost / 2, kMost / 4, 64, 1};
  EXPECT_TRUE(plan_boxes({"fine", "q"}, t, plan).ok());
}

/// B = K^T: column n of the product is row n of the buffer, product k its element 16 * step + k.
TEST(Descriptor, KNamesRowsOfTheBuffer) {
  for (const uint32_t buffer : {0U, 16384U, 1024U * 7}) {
    for (int step = 0; step < 8; ++step) {
      const uint64_t descriptor = k_descriptor(buffer) + k_advance(step);
      for (uint32_t n = 0; n < 64; ++n) {
        for (uint32_t k = 0; k < 16; ++k) {
          const uint32_t d = static_cast<uint32_t>(step) * 16 + k;
          ASSERT_EQ(named_byte(descriptor, k, n),
                    buffer + d / 64 * kSlabBytes + swizzled(n, d % 64 / 8) + d % 8 * 2);
        }
      }
    }
  }
}

/// B = V: product k is row 16 * step + k of the buffer, column n its element n.
TEST(Descriptor, VNamesElementsOfTheBuffer) {
  for (const uint32_t buffer : {0U, 16384U, 1024U * 7}) {
    for (int step = 0; step < 4; ++step) {
      const uint64_t descriptor = v_descriptor(buffer) + v_advance(step);
      for (uint32_t n = 0; n < 128; ++n) {
        for (uint32_t k = 0; k < 16; ++k) {
          const uint32_t row = static_cast<uint32_t>(step) * 16 + k;
          ASSERT_EQ(named_byte(descriptor, n, k),
                    buffer + n / 64 * kSlabBytes + swizzled(row, n % 64 / 8) + n % 8 * 2);
        }
      }
    }
  }
}

/// Advancing in the lower single half is the same, wherever the buffer lies.
TEST(Descriptor, AdvancesInItsLowerHalf) {
  for (const uint32_t buffer : {0U, 16384U, 0x38000U}) {
    for (int step = 0; step < 8; ++step) {
      EXPECT_EQ(Descriptor(k_descriptor(buffer)).advanced(k_advance(step)),
                k_descriptor(buffer) + k_advance(step));
    }
    for (int step = 0; step < 4; ++step) {
      EXPECT_EQ(Descriptor(v_descriptor(buffer)).advanced(v_advance(step)),
                v_descriptor(buffer) + v_advance(step));
    }
  }
}

TEST(Descriptor, SaysSwizzle128) {
  EXPECT_EQ(k_descriptor(0) >> 62, 1U);
  EXPECT_EQ(v_descriptor(0) >> 62, 1U);
}

}  // namespace
}  // namespace vsa::cuda::sm90
