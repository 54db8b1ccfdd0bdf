#include "tests/support/hostile_args.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace vsa::test {
namespace {

__extension__ using Wide = __int128;

constexpr Wide kMaxInt64 = std::numeric_limits<int64_t>::max();
constexpr std::array<int64_t, 4> kElementBytes{4, 2, 2, 8};

Tensor as_cpp(const vsa_tensor& t) {
  Tensor to;
  to.data = t.data;
  to.dtype = static_cast<DType>(t.dtype);
  std::copy_n(t.shape, 4, to.shape.begin());
  std::copy_n(t.stride, 4, to.stride.begin());
  return to;
}

}  // namespace

vsa_context HostileArgs::context() {
  vsa_context c{};
  c.struct_size = sizeof c + (bytes_.one_in(128) ? 8 : 0);
  c.backend = bytes_.spoiled32(bytes_.below(2) == 0 ? VSA_CPU : VSA_REFERENCE, 32);
  c.num_threads = bytes_.spoiled32(static_cast<int32_t>(bytes_.below(3)), 32);
  if (c.num_threads > 8 && c.num_threads <= 1024) c.num_threads = 8;  // valid, but slow to start
  return c;
}

PlanHandle HostileArgs::make_plan() {
  std::array<int64_t, 3> grid{}, tile{};
  for (int64_t& x : grid) x = bytes_.spoiled(1 + bytes_.below(5), 64);
  for (int64_t& x : tile) x = bytes_.spoiled(1 + bytes_.below(3), 64);
  // A large grid is a valid plan that takes gigabytes; overflow must be refused without.
  for (int64_t& x : grid) {
    if (x > 16 && x <= std::numeric_limits<int32_t>::max()) x = 16;
  }
  vsa_plan* plan = nullptr;
  switch (bytes_.below(3)) {
    case 0:
      (void)vsa_plan_create_grid(grid.data(), tile.data(), &plan);
      break;
    case 1: {
      std::vector<int32_t> lens(static_cast<size_t>(1 + bytes_.below(6)));
      for (int32_t& len : lens) len = bytes_.spoiled32(static_cast<int32_t>(bytes_.below(9)), 64);
      (void)vsa_plan_create_tiled(lens.data(), std::ssize(lens), bytes_.spoiled(8, 64), &plan);
      break;
    }
    default: {
      std::vector<int64_t> segments(static_cast<size_t>(bytes_.below(3)));
      for (int64_t& s : segments) {
        s = bytes_.spoiled(bytes_.below(20), 64);
        if (s > 1000 && s <= std::numeric_limits<int32_t>::max()) s = 1000;
      }
      (void)vsa_plan_create_packed(segments.data(), std::ssize(segments), grid.data(), tile.data(),
                                   &plan);
    }
  }
  return PlanHandle(plan);
}

bool HostileArgs::make_plans() {
  q_plan_ = make_plan();
  kv_plan_ = make_plan();
  vsa_plan_info q{}, kv{};
  q.struct_size = kv.struct_size = sizeof q;
  if (vsa_plan_get_info(q_plan_.get(), &q) != VSA_OK) return false;
  if (vsa_plan_get_info(kv_plan_.get(), &kv) != VSA_OK) return false;
  num_q_tiles = q.num_tiles;
  num_kv_tiles = kv.num_tiles;
  const int64_t batch = 1 + bytes_.below(2);
  const int64_t num_kv_heads = 1 + bytes_.below(2);
  const int64_t group_size = 1 + bytes_.below(2);
  const int64_t head_dim = bytes_.one_in(8) ? 1 + bytes_.below(20) : 8 + 8 * bytes_.below(3);
  q_shape = {batch, num_kv_heads * group_size, q.seq_len, head_dim};
  kv_shape = {batch, num_kv_heads, kv.seq_len, head_dim};
  dtype = static_cast<int32_t>(bytes_.below(4));
  return true;
}

void* HostileArgs::data_for(const vsa_tensor& t) {
  const int64_t size =
      t.dtype >= 0 && t.dtype < 4 ? kElementBytes[static_cast<size_t>(t.dtype)] : int64_t{1};
  Wide below = 0, above = size;
  bool nonsense = false;
  for (size_t i = 0; i < 4; ++i) {
    nonsense |= t.shape[i] < 1;
    if (t.shape[i] == 1) continue;
    const Wide span = (Wide{t.shape[i]} - 1) * t.stride[i];
    if (span > kMaxInt64 || span < -kMaxInt64) nonsense = true;
    if (!nonsense) (span < 0 ? below : above) += span * size;
  }
  nonsense |= above - below > kMaxInt64;
  if (nonsense) return memory_.allocate(8, std::byte{0x3C});
  if (above - below > kMaxBytes) return nullptr;
  const auto total = static_cast<int64_t>(above - below);
  std::byte* block = bytes_.one_in(64) ? memory_.share(total) : nullptr;
  // Numbers near 0.01, NaN, or small ones of both signs and other bytes.
  const std::array fills{std::byte{0x3C}, std::byte{0x3C}, std::byte{0xFF}, std::byte{0xBD}};
  if (block == nullptr) {
    block = memory_.allocate(total, fills[static_cast<size_t>(bytes_.below(4))]);
  }
  return block - static_cast<int64_t>(below);
}

vsa_tensor HostileArgs::tensor(Shape right, int32_t right_dtype, bool may_broadcast) {
  vsa_tensor t{};
  t.dtype = bytes_.spoiled32(right_dtype, 64);
  for (size_t i = 0; i < 4; ++i) t.shape[i] = bytes_.spoiled(right[i], 64);
  // Nonsense extents give nonsense strides; unsigned, so that making them is defined.
  const auto product = [](int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  };
  const int64_t gap = bytes_.below(3);  // elements between rows
  const int64_t row =
      static_cast<int64_t>(static_cast<uint64_t>(t.shape[3]) + static_cast<uint64_t>(gap));
  const int64_t plane = product(row, product(t.shape[1], t.shape[2]));
  const bool heads_first = bytes_.below(2) == 0;
  const Shape strides = heads_first ? Shape{plane, product(row, t.shape[2]), row, 1}
                                    : Shape{plane, row, product(row, t.shape[1]), 1};
  for (size_t i = 0; i < 4; ++i) {
    t.stride[i] = bytes_.spoiled(strides[i], 64);
    if (may_broadcast && i < 3 && bytes_.one_in(16)) t.stride[i] = 0;
  }
  t.data = bytes_.one_in(64) ? nullptr : data_for(t);
  return t;
}

vsa_const_tensor HostileArgs::input(Shape right, int32_t right_dtype) {
  return vsa_read(tensor(right, right_dtype, true));
}

vsa_tensor HostileArgs::output(Shape right, int32_t right_dtype) {
  return outputs_.emplace_back(tensor(right, right_dtype, false));
}

vsa_tensor HostileArgs::optional_output(Shape right, int32_t right_dtype) {
  return bytes_.one_in(4) ? vsa_tensor{} : output(right, right_dtype);
}

vsa_gate HostileArgs::gate() {
  vsa_gate g{};
  g.kind = bytes_.spoiled32(1 + static_cast<int32_t>(bytes_.below(2)), 32);
  const std::array constants{0.0F, 1.0F, -0.5F, std::numeric_limits<float>::quiet_NaN()};
  g.constant = constants[static_cast<size_t>(bytes_.one_in(16) ? 3 : bytes_.below(3))];
  if (g.kind == VSA_GATE_TENSOR) g.tensor = input(q_shape, dtype);
  return g;
}

vsa_scale HostileArgs::scale() {
  const std::array values{0.25F, 0.0F, -2.0F, 1e30F, std::numeric_limits<float>::infinity()};
  return {static_cast<int32_t>(bytes_.below(2)),
          values[static_cast<size_t>(bytes_.one_in(16) ? 4 : bytes_.below(4))]};
}

std::vector<int32_t> HostileArgs::ascending(int64_t end, int64_t most) {
  std::vector<int32_t> list;
  for (int64_t j = bytes_.below(3); j < end && std::ssize(list) < most; j += 1 + bytes_.below(3)) {
    list.push_back(static_cast<int32_t>(j));
  }
  return list;
}

vsa_const_lut HostileArgs::input_lut() {
  const int64_t rows = q_shape[0] * q_shape[1] * num_q_tiles;
  const int64_t pitch = 1 + bytes_.below(8);
  std::vector<int32_t> index(static_cast<size_t>(rows * pitch), -7);
  std::vector<int32_t> count(static_cast<size_t>(rows));
  for (int64_t row = 0; row < rows; ++row) {
    const std::vector<int32_t> kept = ascending(num_kv_tiles, pitch);
    std::ranges::copy(kept, index.begin() + row * pitch);
    count[static_cast<size_t>(row)] = static_cast<int32_t>(kept.size());
  }
  if (bytes_.one_in(8)) {
    int32_t& entry = index[static_cast<size_t>(bytes_.any_int64() & 0xFFFF) % index.size()];
    entry = bytes_.spoiled32(entry, 2);
  }
  if (bytes_.one_in(8)) {
    int32_t& entry = count[static_cast<size_t>(bytes_.any_int64() & 0xFFFF) % count.size()];
    entry = bytes_.spoiled32(entry, 2);
  }
  const auto copy = [&](const std::vector<int32_t>& from) -> int32_t* {
    if (bytes_.one_in(64)) return nullptr;
    std::byte* to = memory_.allocate(std::ssize(from) * 4, std::byte{0});
    std::memcpy(to, from.data(), from.size() * 4);
    return reinterpret_cast<int32_t*>(to);
  };
  vsa_const_lut lut{copy(index), copy(count), q_shape[0], q_shape[1], num_q_tiles, pitch};
  // Another extent than the right one must be refused; a larger pitch would be believed.
  lut.batch = bytes_.spoiled(lut.batch, 64);
  lut.num_heads = bytes_.spoiled(lut.num_heads, 64);
  lut.num_q_tiles = bytes_.spoiled(lut.num_q_tiles, 64);
  if (bytes_.one_in(64)) lut.pitch = bytes_.below(2) == 0 ? 0 : -bytes_.below(256);
  if (lut.pitch > pitch) lut.pitch = std::numeric_limits<int64_t>::max();
  return lut;
}

vsa_lut HostileArgs::output_lut(int64_t right_pitch) {
  const int64_t rows = q_shape[0] * q_shape[1] * num_q_tiles;
  const int64_t pitch = std::clamp<int64_t>(right_pitch, 1, 1000) + bytes_.below(3);
  const auto memory = [&](int64_t count) {
    return bytes_.one_in(64)
               ? nullptr
               : reinterpret_cast<int32_t*>(memory_.allocate(count * 4, std::byte{0x3C}));
  };
  vsa_lut lut{memory(rows * pitch), memory(rows), q_shape[0], q_shape[1], num_q_tiles, pitch};
  lut.batch = bytes_.spoiled(lut.batch, 64);
  lut.num_heads = bytes_.spoiled(lut.num_heads, 64);
  lut.num_q_tiles = bytes_.spoiled(lut.num_q_tiles, 64);
  if (bytes_.one_in(64)) lut.pitch = bytes_.below(2) == 0 ? lut.pitch - 3 : INT64_MAX;
  return output_luts_.emplace_back(lut);
}

std::vector<int32_t>& HostileArgs::list(int64_t end) {
  auto& list = *lists_.emplace_back(std::make_unique<std::vector<int32_t>>());
  if (bytes_.one_in(2)) list = ascending(end, bytes_.below(4));
  for (int32_t& x : list) x = bytes_.spoiled32(x, 32);
  return list;
}

vsa_select_options HostileArgs::select_options() {
  vsa_select_options o{};
  o.topk = bytes_.spoiled(1 + bytes_.below(std::min<int64_t>(num_kv_tiles, 200)), 32);
  const std::vector<int32_t>& forced = list(num_kv_tiles);
  const std::vector<int32_t>& dense = list(num_q_tiles);
  o.forced_columns = forced.data();
  o.num_forced_columns = bytes_.one_in(64) ? -1 : std::ssize(forced);
  o.dense_rows = dense.data();
  o.num_dense_rows = bytes_.one_in(64) ? INT64_MAX : std::ssize(dense);
  return o;
}

void HostileArgs::accept_outputs() {
  for (const vsa_tensor& t : outputs_) memory_.accept(as_cpp(t));
  for (const vsa_lut& l : output_luts_) {
    if (l.index == nullptr) continue;  // left out
    const int64_t rows = l.batch * l.num_heads * l.num_q_tiles;
    memory_.accept(l.index, rows * l.pitch * 4);
    memory_.accept(l.count, rows * 4);
  }
}

}  // namespace vsa::test
