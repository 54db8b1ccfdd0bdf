// The transposed table against the definition, for tables that nobody checked, too.
#include "src/cuda/fine/lut_t.h"

#include <algorithm>

#include "src/core/lut_row.h"
#include "tests/gpu/cases.h"

namespace vsa::test::gpu {
namespace {

struct Lists {
  std::vector<int64_t> offset;
  std::vector<int32_t> index;
};

Lists transpose_on_gpu(const ConstLut& lut, int64_t num_kv_tiles) {
  const DeviceLut table(lut);
  const int64_t num_lists = lut.dims.batch * lut.dims.num_heads * num_kv_tiles;
  Lists lists;
  lists.offset.resize(static_cast<size_t>(num_lists) + 1);
  cuda::LutT view;
  const auto make = [&](const Context& c) {
    cuda::Carver workspace(c);
    const cuda::TransposedLut lut_t(workspace, lut.dims, num_kv_tiles);
    if (workspace.answers_query()) return Status();
    view = lut_t.view();
    throw_if_error(lut_t.build(call_site("lut_t", c), table.view()));
    expect_cuda(cudaStreamSynchronize(static_cast<cudaStream_t>(c.stream)));
    expect_cuda(cudaMemcpy(lists.offset.data(), view.offset, lists.offset.size() * sizeof(int64_t),
                           cudaMemcpyDeviceToHost));
    lists.index.resize(static_cast<size_t>(lists.offset.back()));
    expect_cuda(cudaMemcpy(lists.index.data(), view.index, lists.index.size() * sizeof(int32_t),
                           cudaMemcpyDeviceToHost));
    return Status();
  };
  run_on_gpu(make);
  return lists;
}

void expect_transposed(const Lists& lists, const ConstLut& lut, int64_t num_kv_tiles) {
  size_t list = 0;
  ASSERT_EQ(lists.offset[0], 0);
  for (int64_t b = 0; b < lut.dims.batch; ++b) {
    for (int64_t h = 0; h < lut.dims.num_heads; ++h) {
      for (int32_t j = 0; j < num_kv_tiles; ++j, ++list) {
        std::vector<int32_t> want;
        for (int32_t i = 0; i < lut.dims.num_q_tiles; ++i) {
          if (std::ranges::binary_search(lut_row(lut, b, h, i), j)) want.push_back(i);
        }
        ASSERT_LE(lists.offset[list + 1], std::ssize(lists.index));
        const std::vector<int32_t> got(lists.index.begin() + lists.offset[list],
                                       lists.index.begin() + lists.offset[list + 1]);
        ASSERT_EQ(got, want) << "list " << list;
      }
    }
  }
}

TEST(GpuLutT, IsTheTranspose) {
  VSA_NEEDS_GPU;
  const int64_t extents[][2] = {{1, 1}, {31, 33}, {32, 64}, {257, 100}, {300, 45}, {40, 600}};
  for (const auto& [num_q_tiles, num_kv_tiles] : extents) {
    SCOPED_TRACE(testing::Message() << num_q_tiles << " x " << num_kv_tiles);
    const Heads heads{2, 3, 3, 64};
    const LutBuffer table = random_lut(heads, num_q_tiles, num_kv_tiles, 5);
    expect_transposed(transpose_on_gpu(table.view(), num_kv_tiles), table.view(), num_kv_tiles);
  }
}

TEST(GpuLutT, EntriesThatNameNoTileAreLeftOut) {
  VSA_NEEDS_GPU;
  const LutDims dims{.batch = 1, .num_heads = 2, .num_q_tiles = 40, .pitch = 5};
  LutBuffer wild(dims);
  LutBuffer clean(dims);
  for (int64_t row = 0; row < 80; ++row) {
    const auto tile = static_cast<int32_t>(row % 34);
    const int32_t entries[] = {INT32_MIN, tile, tile, tile + 1, row % 2 == 0 ? 35 : INT32_MAX};
    std::ranges::copy(entries, wild.view().index + row * dims.pitch);
    wild.view().count[row] = row % 3 == 0 ? INT32_MAX : row % 3 == 1 ? 5 : -7;
    if (row % 3 == 2) continue;
    clean.view().index[row * dims.pitch] = tile;
    clean.view().index[row * dims.pitch + 1] = tile + 1;
    clean.view().count[row] = 2;
  }
  expect_transposed(transpose_on_gpu(wild.view(), 35), clean.view(), 35);
}

}  // namespace
}  // namespace vsa::test::gpu
