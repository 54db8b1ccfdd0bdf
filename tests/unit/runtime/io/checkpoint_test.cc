// Checkpoints of one file and of several: the same tensors either way, and no index is believed.
#include "runtime/io/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "runtime/io/checkpoint_index.h"
#include "runtime/io/safetensors_writer.h"
#include "tests/unit/runtime/io/files.h"

namespace vsa::io {
namespace {

using test::ScratchDirectory;
using test::write_text;
using testing::HasSubstr;

const std::vector<float> kData{1, 2, 3, 4};

void write_shard(const std::filesystem::path& path, const std::vector<std::string>& names,
                 const Metadata& metadata = {{"format", "pt"}}) {
  TensorMap tensors;
  for (const std::string& name : names) {
    tensors[name] = {StorageType::kF32, {2, 2}, std::as_bytes(std::span(kData))};
  }
  throw_if_error(write_safetensors(path, tensors, metadata));
}

std::string index_of(const std::string& weight_map) {
  return R"({"metadata":{"total_size":64},"weight_map":{)" + weight_map + "}}";
}

class CheckpointTest : public testing::Test {
 protected:
  /// m-1 holds a and b, m-2 holds c; the index is as given.
  Result<Checkpoint> open_sharded(const std::string& index) {
    write_shard(scratch_ / "m-1.safetensors", {"a", "b"});
    write_shard(scratch_ / "m-2.safetensors", {"c"});
    write_text(scratch_ / "m.safetensors.index.json", index);
    return Checkpoint::open(scratch_ / "m.safetensors.index.json");
  }
  void expect_refused(const std::string& index, const std::string& message) {
    const Status status = open_sharded(index).status();
    EXPECT_EQ(status.code(), StatusCode::kIoError) << index;
    EXPECT_THAT(status.message(), HasSubstr(message)) << index;
  }
  const std::string good_ = R"("a":"m-1.safetensors","b":"m-1.safetensors","c":"m-2.safetensors")";
  ScratchDirectory scratch_;
};

TEST_F(CheckpointTest, ServesShards) {
  const Checkpoint checkpoint = open_sharded(index_of(good_)).value();
  EXPECT_EQ(checkpoint.tensors().size(), 3U);
  EXPECT_EQ(to_string(*checkpoint.find("c")), "F32 [2,2]");
  EXPECT_EQ(checkpoint.find("d"), nullptr);
  EXPECT_EQ(checkpoint.num_bytes(), 48);
  EXPECT_EQ(checkpoint.metadata(), (Metadata{{"format", "pt"}}));
  EXPECT_THAT(checkpoint.paths(),
              testing::ElementsAre(scratch_ / "m-1.safetensors", scratch_ / "m-2.safetensors"));
  std::vector<float> copy(4);
  throw_if_error(copy_as_f32(*checkpoint.find("a"), copy));
  EXPECT_EQ(copy, kData);
}

TEST_F(CheckpointTest, ServesOneFileAndADirectory) {
  write_shard(scratch_ / "m.safetensors", {"a", "b", "c"}, {{"vsa.tile", "4,4,4"}});
  for (const auto& path : {scratch_ / "m.safetensors", scratch_.path()}) {
    const Checkpoint checkpoint = Checkpoint::open(path).value();
    EXPECT_EQ(checkpoint.tensors().size(), 3U);
    EXPECT_EQ(checkpoint.metadata().at("vsa.tile"), "4,4,4");
    EXPECT_THAT(checkpoint.paths(), testing::ElementsAre(scratch_ / "m.safetensors"));
  }
}

TEST_F(CheckpointTest, DirectoryWithAnIndexIsSharded) {
  open_sharded(index_of(good_)).value();
  EXPECT_EQ(Checkpoint::open(scratch_.path()).value().tensors().size(), 3U);
}

TEST_F(CheckpointTest, DirectoryMustHoldOneCandidate) {
  EXPECT_THAT(Checkpoint::open(scratch_.path()).status().message(), HasSubstr("got none"));
  write_shard(scratch_ / "m.safetensors", {"a"});
  write_shard(scratch_ / "n.safetensors", {"a"});
  EXPECT_THAT(Checkpoint::open(scratch_.path()).status().message(),
              HasSubstr("got m.safetensors, n.safetensors"));
  EXPECT_EQ(Checkpoint::open(scratch_ / "missing").status().code(), StatusCode::kIoError);
}

TEST_F(CheckpointTest, R16_ShardsAndIndexMustAgree) {
  expect_refused(index_of(R"("a":"m-1.safetensors","c":"m-2.safetensors")"),
                 "\"b\": expected to be listed in m-1.safetensors");
  expect_refused(index_of(R"("a":"m-1.safetensors","b":"m-2.safetensors","c":"m-2.safetensors")"),
                 "\"b\": expected to be listed in m-1.safetensors");
  expect_refused(index_of(good_ + R"(,"d":"m-2.safetensors")"), "\"d\": expected in \"m-2");
  expect_refused(index_of(good_ + R"(,"d":"m-3.safetensors")"), "m-3.safetensors");
}

TEST_F(CheckpointTest, R16_TensorInTwoShards) {
  write_shard(scratch_ / "m-3.safetensors", {"a"});
  expect_refused(index_of(good_ + R"(,"d":"m-3.safetensors")"), "\"a\": expected in one shard");
}

TEST_F(CheckpointTest, ShardsMustAgreeOnMetadata) {
  write_shard(scratch_ / "m-3.safetensors", {"d"}, {{"format", "tf"}});
  expect_refused(index_of(good_ + R"(,"d":"m-3.safetensors")"),
                 "metadata \"format\": expected \"pt\"");
}

TEST_F(CheckpointTest, R16_ShardsMayNotLieElsewhere) {
  write_shard(scratch_ / "m-3.safetensors", {"d"});
  for (const std::string file :
       {"../m-3.safetensors", "/m-3.safetensors", "sub/m-3.safetensors", "..\\\\m-3.safetensors",
        "m-3.safetensors\\u0000", "..", "m-3.bin", ""}) {
    expect_refused(index_of(good_ + R"(,"d":")" + file + "\""), "\"d\": expected the name of a");
  }
}

TEST_F(CheckpointTest, R16_BadIndex) {
  expect_refused("", "expected a JSON object");
  expect_refused("[]", "expected a JSON object");
  expect_refused("{} {}", "expected a JSON object");
  expect_refused(R"({"weight_map":)", "expected a JSON object");
  expect_refused("{}", "weight_map: expected an object");
  expect_refused(R"({"weight_map":[]})", "weight_map: expected an object");
  expect_refused(R"({"weight_map":{}})", "weight_map: expected at least one tensor");
  expect_refused(R"({"weight_map":{"a":3}})", "\"a\": expected the name");
  expect_refused(R"({"weight_map":{"a":["m-1.safetensors"]}})", "\"a\": expected the name");
  expect_refused(R"({"weights":{}})", "got \"weights\"");
  expect_refused(index_of(good_ + R"(,"a":"m-2.safetensors")"), "\"a\": expected each key once");
  expect_refused(R"({"weight_map":{},"weight_map":{}})", "\"weight_map\": expected each key once");
  expect_refused(std::string("{}\0{}", 5), "got a NUL byte");
  expect_refused(R"({"metadata":)" + std::string(100'000, '['), "at most 3 levels");
}

TEST_F(CheckpointTest, SameKeyInTwoObjectsIsFine) {
  const auto index = parse_checkpoint_index(
      R"({"metadata":{"a":{"a":1},"b":{"a":1}},"weight_map":{"a":"m.safetensors"}})", "x");
  EXPECT_TRUE(index.ok()) << index.status().message();
}

TEST_F(CheckpointTest, OnePartOfAFileOfManyIsKept) {
  write_shard(scratch_ / "all.safetensors", {"x.a", "x.b", "y.a", "z"});
  const auto kept = [&](std::vector<std::string_view> prefixes) {
    Checkpoint checkpoint = Checkpoint::open(scratch_ / "all.safetensors").value();
    checkpoint.keep_part(prefixes);
    std::vector<std::string> names;
    for (const auto& [name, view] : checkpoint.tensors()) names.push_back(name);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(kept({"w.", "x.", "y."}), (Names{"x.a", "x.b"}));  // the first that occurs
  EXPECT_EQ(kept({"y."}), (Names{"y.a"}));
  EXPECT_EQ(kept({"w."}), (Names{"x.a", "x.b", "y.a", "z"}));  // the file is one part
  EXPECT_EQ(kept({}).size(), 4U);
}

TEST_F(CheckpointTest, ViewsOutliveMoves) {
  Checkpoint first = open_sharded(index_of(good_)).value();
  const TensorView view = *first.find("a");
  const Checkpoint second = std::move(first);
  EXPECT_EQ(second.find("a")->bytes.data(), view.bytes.data());
  std::vector<float> copy(4);
  throw_if_error(copy_as_f32(view, copy));
  EXPECT_EQ(copy, kData);
}

TEST_F(CheckpointTest, ShippedModelCanBeOpened) {
  const std::filesystem::path model =
      std::filesystem::path(VSA_SOURCE_DIR) / "models/wan-toy/transformer";
  if (!std::filesystem::exists(model)) GTEST_SKIP() << "no model in this tree";
  const auto checkpoint = Checkpoint::open(model);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_NE(checkpoint->find("patch_embedding.weight"), nullptr);
}

}  // namespace
}  // namespace vsa::io
