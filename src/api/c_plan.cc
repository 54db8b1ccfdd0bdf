// C ABI: errors, version, backends, plans, top-k. Host-only.
#include <algorithm>
#include <array>
#include <cstring>

#include "src/api/c_guard.h"
#include "vsa/backend.h"

namespace vsa::c_api {
namespace {

thread_local std::array<char, 1024> last_error{};

/// Copies text into a fixed array, cut to fit and always ended.
template <size_t n>
void copy_text(std::string_view text, char (&to)[n]) {
  const size_t length = std::min(text.size(), n - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

/// Hands out a plan, or says what was wrong.
Status give(Result<TilePlan> plan, vsa_plan** out) {
  VSA_TRY(plan.status());
  *out = new vsa_plan{std::move(plan).value()};
  return {};
}

/// A list and its length; null only if it is empty.
Status check_list(const char* argument, const void* list, const char* length_argument,
                  int64_t length) {
  if (length < 0) {
    return invalid_argument(
        fmt::format("[tile_plan] {}: expected at least 0, got {}", length_argument, length));
  }
  if (list == nullptr && length > 0) return null_argument("tile_plan", argument);
  return {};
}

Grid grid_of(const int64_t* x) { return {x[0], x[1], x[2]}; }
TileShape tile_shape_of(const int64_t* x) { return {x[0], x[1], x[2]}; }

}  // namespace

void set_last_error(const char* text) noexcept {
  const size_t length = std::min(std::strlen(text), last_error.size() - 1);
  std::memcpy(last_error.data(), text, length);
  last_error[length] = '\0';
}

}  // namespace vsa::c_api

using namespace vsa;         // NOLINT(google-build-using-namespace): this file is the C side of vsa
using namespace vsa::c_api;  // NOLINT(google-build-using-namespace)

extern "C" {

const char* vsa_last_error(void) noexcept { return last_error.data(); }

// The names are string literals, so they end with a zero byte.
const char* vsa_status_name(vsa_status status) noexcept {
  return name(static_cast<StatusCode>(status)).data();
}

const char* vsa_version(void) noexcept { return VSA_VERSION_STRING; }

int32_t vsa_num_backends(void) noexcept { return static_cast<int32_t>(kBackendIds.size()); }

vsa_status vsa_get_backend_info(int32_t idx, vsa_backend_info* info) noexcept {
  return guarded([&]() -> Status {
    VSA_TRY(check_struct("backend_info", "info", info));
    const std::vector<BackendInfo> all = backends();
    if (idx < 0 || static_cast<size_t>(idx) >= all.size()) {
      return invalid_argument(
          fmt::format("[backend_info] idx: expected 0 to {}, got {}", all.size() - 1, idx));
    }
    const BackendInfo& from = all[static_cast<size_t>(idx)];
    info->backend = static_cast<int32_t>(from.id);
    info->available = from.available ? 1 : 0;
    copy_text(name(from.id), info->name);
    copy_text(from.detail, info->detail);
    return {};
  });
}

vsa_status vsa_plan_create_grid(const int64_t grid[3], const int64_t tile_shape[3],
                                vsa_plan** plan) noexcept {
  return guarded([&]() -> Status {
    if (grid == nullptr) return null_argument("tile_plan", "grid");
    if (tile_shape == nullptr) return null_argument("tile_plan", "tile_shape");
    if (plan == nullptr) return null_argument("tile_plan", "plan");
    return give(TilePlan::grid(grid_of(grid), tile_shape_of(tile_shape)), plan);
  });
}

vsa_status vsa_plan_create_tiled(const int32_t* tile_len, int64_t num_tiles, int64_t tile_tokens,
                                 vsa_plan** plan) noexcept {
  return guarded([&]() -> Status {
    if (tile_len == nullptr) return null_argument("tile_plan", "tile_len");
    if (plan == nullptr) return null_argument("tile_plan", "plan");
    if (num_tiles < 0) {
      return invalid_argument(
          fmt::format("[tile_plan] num_tiles: expected at least 1, got {}", num_tiles));
    }
    return give(TilePlan::tiled({tile_len, static_cast<size_t>(num_tiles)}, tile_tokens), plan);
  });
}

vsa_status vsa_plan_create_packed(const int64_t* segment_lens, int64_t num_segments,
                                  const int64_t grid[3], const int64_t tile_shape[3],
                                  vsa_plan** plan) noexcept {
  return vsa_plan_create_ordered(segment_lens, num_segments, grid, VSA_ORDER_RASTER, tile_shape,
                                 plan);
}

vsa_status vsa_plan_create_ordered(const int64_t* segment_lens, int64_t num_segments,
                                   const int64_t grid[3], int32_t order,
                                   const int64_t tile_shape[3], vsa_plan** plan) noexcept {
  return guarded([&]() -> Status {
    VSA_TRY(check_list("segment_lens", segment_lens, "num_segments", num_segments));
    if (grid == nullptr) return null_argument("tile_plan", "grid");
    if (tile_shape == nullptr) return null_argument("tile_plan", "tile_shape");
    if (plan == nullptr) return null_argument("tile_plan", "plan");
    const Tiling tiling{.order = static_cast<TokenOrder>(order), .tile = tile_shape_of(tile_shape)};
    return give(
        TilePlan::packed({segment_lens, static_cast<size_t>(num_segments)}, grid_of(grid), tiling),
        plan);
  });
}

vsa_status vsa_plan_create_assigned(const int32_t* tokens, int64_t num_tokens,
                                    const int32_t* tile_len, int64_t num_tiles, int64_t tile_tokens,
                                    vsa_plan** plan) noexcept {
  return guarded([&]() -> Status {
    VSA_TRY(check_list("tokens", tokens, "num_tokens", num_tokens));
    VSA_TRY(check_list("tile_len", tile_len, "num_tiles", num_tiles));
    if (plan == nullptr) return null_argument("tile_plan", "plan");
    return give(TilePlan::assigned({tokens, static_cast<size_t>(num_tokens)},
                                   {tile_len, static_cast<size_t>(num_tiles)}, tile_tokens),
                plan);
  });
}

vsa_status vsa_plan_create_in_tile_order(const vsa_plan* plan, vsa_plan** tiled) noexcept {
  return guarded([&]() -> Status {
    if (plan == nullptr) return null_argument("tile_plan", "plan");
    if (tiled == nullptr) return null_argument("tile_plan", "tiled");
    return give(plan->plan.in_tile_order(), tiled);
  });
}

vsa_status vsa_plan_create_in_compact_order(const vsa_plan* plan, vsa_plan** compact) noexcept {
  return guarded([&]() -> Status {
    if (plan == nullptr) return null_argument("tile_plan", "plan");
    if (compact == nullptr) return null_argument("tile_plan", "compact");
    return give(plan->plan.in_compact_order(), compact);
  });
}

void vsa_plan_destroy(vsa_plan* plan) noexcept { delete plan; }

vsa_status vsa_plan_get_info(const vsa_plan* plan, vsa_plan_info* info) noexcept {
  return guarded([&]() -> Status {
    if (plan == nullptr) return null_argument("plan_info", "plan");
    VSA_TRY(check_struct("plan_info", "info", info));
    *info = {.struct_size = sizeof(vsa_plan_info),
             .num_tiles = plan->plan.num_tiles(),
             .num_prefix_tiles = plan->plan.num_prefix_tiles(),
             .tile_tokens = plan->plan.tile_tokens(),
             .seq_len = plan->plan.seq_len(),
             .num_valid_tokens = plan->plan.num_valid_tokens(),
             .padded_len = plan->plan.padded_len()};
    return {};
  });
}

vsa_status vsa_plan_get_tile(const vsa_plan* plan, int64_t tile, const int32_t** tokens,
                             int64_t* num_tokens) noexcept {
  return guarded([&]() -> Status {
    if (plan == nullptr) return null_argument("plan_tile", "plan");
    if (tokens == nullptr) return null_argument("plan_tile", "tokens");
    if (num_tokens == nullptr) return null_argument("plan_tile", "num_tokens");
    if (tile < 0 || tile >= plan->plan.num_tiles()) {
      return invalid_argument(fmt::format("[plan_tile] tile: expected 0 to {}, got {}",
                                          plan->plan.num_tiles() - 1, tile));
    }
    *tokens = plan->plan.tokens(tile).data();
    *num_tokens = plan->plan.tile_len(tile);
    return {};
  });
}

vsa_status vsa_best_tile(const int64_t grid[3], int64_t max_tokens,
                         int64_t tile_shape[3]) noexcept {
  return guarded([&]() -> Status {
    if (grid == nullptr) return null_argument("best_tile", "grid");
    if (tile_shape == nullptr) return null_argument("best_tile", "tile_shape");
    const Result<TileShape> best = best_tile(grid_of(grid), max_tokens);
    VSA_TRY(best.status());
    tile_shape[0] = best->f;
    tile_shape[1] = best->h;
    tile_shape[2] = best->w;
    return {};
  });
}

vsa_status vsa_topk_from_sparsity(double sparsity, int64_t num_kv_tiles, int64_t* topk) noexcept {
  return guarded([&]() -> Status {
    if (topk == nullptr) return null_argument("topk_from_sparsity", "topk");
    const Result<int64_t> kept = topk_from_sparsity(sparsity, num_kv_tiles);
    VSA_TRY(kept.status());
    *topk = *kept;
    return {};
  });
}

}  // extern "C"
