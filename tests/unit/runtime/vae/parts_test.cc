// Cutting a network into stripes: what rows depend on, and that all rows are made.
#include "runtime/vae/parts.h"

#include <gtest/gtest.h>

namespace vsa::vae {
namespace {

Layer layer(LayerKind kind) { return {.kind = kind, .name = "l", .in = 4, .out = 4}; }

TEST(VaeParts, RowsThatRowsDependOn) {
  const auto rows = [](LayerKind kind, Rows out, int64_t height) {
    return input_rows(layer(kind), out, height);
  };
  EXPECT_EQ(rows(LayerKind::kPointwise, {3, 5}, 10), (Rows{3, 5}));
  EXPECT_EQ(rows(LayerKind::kConv, {3, 5}, 10), (Rows{2, 6}));
  EXPECT_EQ(rows(LayerKind::kHead, {0, 10}, 10), (Rows{0, 10}));
  EXPECT_EQ(rows(LayerKind::kResidual, {3, 5}, 10), (Rows{1, 7}));
  EXPECT_EQ(rows(LayerKind::kResidual, {1, 9}, 10), (Rows{0, 10}));
  // Doubled rows 5 to 10 are read: of rows 2 to 5.
  EXPECT_EQ(rows(LayerKind::kUpsample, {6, 10}, 10), (Rows{2, 6}));
  EXPECT_EQ(rows(LayerKind::kUpsample, {7, 10}, 10), (Rows{3, 6}));
  EXPECT_EQ(rows(LayerKind::kUpsample, {0, 20}, 10), (Rows{0, 10}));
  // Rows 6 to 10 are read, and one of zeros below the last.
  EXPECT_EQ(rows(LayerKind::kDownsample, {3, 5}, 20), (Rows{6, 11}));
  EXPECT_EQ(rows(LayerKind::kDownsample, {3, 10}, 20), (Rows{6, 20}));
}

/// Every stripe makes what the next layer reads, and all together every row once.
void expect_whole(const Network& network, const std::vector<Part>& parts, int64_t whole_height) {
  int64_t next_row = 0;
  for (const Part& part : parts) {
    for (int64_t i = 0; i + 1 < part.num_layers(); ++i) {
      EXPECT_EQ(part.shape(i).out, part.shape(i + 1).in);
      EXPECT_EQ(part.shape(i).height_out, part.shape(i + 1).height_in);
      EXPECT_EQ(part.shape(i).width_out, part.shape(i + 1).width_in);
    }
    const bool whole = part.first_layer == network.whole_begin;
    if (whole && parts.size() > 1) {
      EXPECT_EQ(part.shapes.back().out.size(), part.shapes.back().height_out);
      continue;
    }
    EXPECT_EQ(part.shapes.back().out.begin, next_row);
    next_row = part.shapes.back().out.end;
  }
  EXPECT_EQ(next_row, whole_height);
}

TEST(VaeParts, StripesMakeEveryRowOnce) {
  for (const int64_t stripes : {1, 2, 3, 7}) {
    const Network decoder = decoder_network({});
    const auto down = cut_into_parts(decoder, 7, 3, stripes);
    expect_whole(decoder, down, 56);
    EXPECT_EQ(std::ssize(down), stripes == 1 ? 1 : stripes + 1);
    const Network encoder = encoder_network({});
    expect_whole(encoder, cut_into_parts(encoder, 56, 24, stripes), 7);
  }
}

TEST(VaeParts, ThirteenRowsOfLatentsAroundAStripe) {
  const Network network = decoder_network({});
  const std::vector<Part> parts = cut_into_parts(network, 90, 160, 3);
  const Part& middle = parts[2];
  EXPECT_EQ(middle.shapes.back().out, (Rows{240, 480}));  // of latents: 30 to 60
  EXPECT_EQ(middle.shapes.front().in, (Rows{30 - 13, 60 + 13}));
  EXPECT_EQ(middle.shapes.back().in, (Rows{239, 481}));
}

TEST(VaeParts, W10_TheFirstChunkKeepsItsFrame) {
  const Layer up{.kind = LayerKind::kUpsample, .name = "u", .in = 4, .out = 2, .temporal = true};
  const Layer down{
      .kind = LayerKind::kDownsample, .name = "d", .in = 4, .out = 4, .temporal = true};
  EXPECT_EQ(frames_out(up, 1, true), 1);
  EXPECT_EQ(frames_out(up, 1, false), 2);
  EXPECT_EQ(frames_out(down, 1, true), 1);
  EXPECT_EQ(frames_out(down, 4, false), 2);
  EXPECT_EQ(frames_out(layer(LayerKind::kUpsample), 4, false), 4);
}

}  // namespace
}  // namespace vsa::vae
