/* The C ABI of vsa: plans, the seven stages and the whole operator, for C11 and for other
 * languages.
 *
 * Semantics, shapes, dtypes and units are those of vsa/stages.h, vsa/norm_rope_pool.h,
 * vsa/linear.h, vsa/residual_norm.h, vsa/relative_attention.h, vsa/conv3d.h, vsa/pixel_norm.h,
 * vsa/upsample.h, vsa/softmax.h and vsa/attention.h; the names are the same with the prefix vsa_.
 * Host-only.
 *
 * - Every function that can fail returns a vsa_status; out-parameters are set only on VSA_OK.
 *   vsa_last_error() then says what was wrong: `[operation] argument: expected X, got Y`.
 * - Set `struct_size` to sizeof of the struct. Zero all other members that are not used:
 *   `vsa_fine_args args = {.struct_size = sizeof args, ...};`
 * - A tensor or table that may be left out is left out by data (index) = NULL. There is no default
 *   gate: a gate of all zeros is unset and refused.
 * - Nothing is thrown; all functions may be called from any thread; memory stays the caller's.
 */
#ifndef VSA_C_API_H_
#define VSA_C_API_H_

#include <stddef.h>
#include <stdint.h>

#include "vsa/version.h"

#define VSA_API __attribute__((visibility("default")))

#ifdef __cplusplus
#define VSA_NOEXCEPT noexcept
extern "C" {
#else
#define VSA_NOEXCEPT
#endif

/* NOLINTBEGIN(readability-identifier-naming): names as C has them */
typedef int32_t vsa_status;
enum {
  VSA_OK = 0,
  VSA_INVALID_ARGUMENT = 1,
  VSA_UNSUPPORTED = 2, /* a right argument that this backend cannot serve */
  VSA_OUT_OF_MEMORY = 3,
  VSA_DEVICE_ERROR = 4,
  VSA_IO_ERROR = 5,
  VSA_CANCELLED = 6,
  VSA_INTERNAL = 7 /* a fault of vsa itself */
};

enum { VSA_F32 = 0, VSA_BF16 = 1, VSA_F16 = 2, VSA_F64 = 3 };
enum { VSA_REFERENCE = 0, VSA_CPU = 1, VSA_CUDA = 2, VSA_HIP = 3 };
enum { VSA_ACTIVATION_NONE = 0, VSA_ACTIVATION_GELU_TANH = 1, VSA_ACTIVATION_SILU = 2 };
enum { VSA_RESIDUAL_ADD = 0, VSA_RESIDUAL_REPLACE = 1 };
enum { VSA_NORM_KIND_LAYER = 0, VSA_NORM_KIND_RMS = 1 };
enum { VSA_NORM_OVER_NOTHING = 0, VSA_NORM_OVER_HEAD = 1, VSA_NORM_OVER_ALL_HEADS = 2 };
enum { VSA_ROUNDING_NONE = 0, VSA_ROUNDING_BF16 = 1 };
enum { VSA_ORDER_RASTER = 0, VSA_ORDER_GILBERT = 1, VSA_ORDER_GILBERT_FRAMES = 2 };
enum { VSA_GATE_UNSET = 0, VSA_GATE_CONSTANT = 1, VSA_GATE_TENSOR = 2 };

/* --- errors, version, backends ------------------------------------------------------------------
 */

/* The message of the last call on this thread, "" if it succeeded; valid until the next call. */
VSA_API const char* vsa_last_error(void) VSA_NOEXCEPT;
/* "InvalidArgument" and so on; "Unknown" for a value outside the enum. */
VSA_API const char* vsa_status_name(vsa_status status) VSA_NOEXCEPT;
/* The version of the library, "0.1.0"; compare with VSA_VERSION_STRING of the header. */
VSA_API const char* vsa_version(void) VSA_NOEXCEPT;

typedef struct vsa_backend_info {
  size_t struct_size;
  int32_t backend;   /* VSA_REFERENCE ... */
  int32_t available; /* 1 or 0 */
  char name[16];
  char detail[256]; /* if available, what it runs on; else why it is absent */
} vsa_backend_info;
/* Number of backends vsa knows, compiled in or not. */
VSA_API int32_t vsa_num_backends(void) VSA_NOEXCEPT;
/* The idx-th of them; info->struct_size is read. */
VSA_API vsa_status vsa_get_backend_info(int32_t idx, vsa_backend_info* info) VSA_NOEXCEPT;

/* --- plans --------------------------------------------------------------------------------------
 */

/* Which tokens form which tile; immutable. Free with vsa_plan_destroy. */
typedef struct vsa_plan vsa_plan;

typedef struct vsa_plan_info {
  size_t struct_size;
  int64_t num_tiles;
  int64_t num_prefix_tiles;
  int64_t tile_tokens;
  int64_t seq_len;
  int64_t num_valid_tokens;
  int64_t padded_len;
} vsa_plan_info;

/* grid and tile_shape are {f, h, w} in tokens. */
VSA_API vsa_status vsa_plan_create_grid(const int64_t grid[3], const int64_t tile_shape[3],
                                        vsa_plan** plan) VSA_NOEXCEPT;
/* tile_len[num_tiles]: valid tokens of each tile, 0 to tile_tokens. */
VSA_API vsa_status vsa_plan_create_tiled(const int32_t* tile_len, int64_t num_tiles,
                                         int64_t tile_tokens, vsa_plan** plan) VSA_NOEXCEPT;
/* segment_lens[num_segments]: tokens of each prefix segment; NULL if there are none. */
VSA_API vsa_status vsa_plan_create_packed(const int64_t* segment_lens, int64_t num_segments,
                                          const int64_t grid[3], const int64_t tile_shape[3],
                                          vsa_plan** plan) VSA_NOEXCEPT;
/* The same, with the video's tokens in an order VSA_ORDER_...: cuboids in raster order, or runs of
 * a generalised Hilbert curve through the video or through each frame. Along a curve only the
 * product of tile_shape counts, the tokens of a tile: 64 or 128. */
VSA_API vsa_status vsa_plan_create_ordered(const int64_t* segment_lens, int64_t num_segments,
                                           const int64_t grid[3], int32_t order,
                                           const int64_t tile_shape[3],
                                           vsa_plan** plan) VSA_NOEXCEPT;
/* Any assignment of tokens to tiles. tokens[num_tokens]: the positions of the tokens, tile after
 * tile, each of 0 to num_tokens - 1 once; tile_len[num_tiles] sums up to num_tokens. */
VSA_API vsa_status vsa_plan_create_assigned(const int32_t* tokens, int64_t num_tokens,
                                            const int32_t* tile_len, int64_t num_tiles,
                                            int64_t tile_tokens, vsa_plan** plan) VSA_NOEXCEPT;
/* The plan of the same tiles after vsa_tile. */
VSA_API vsa_status vsa_plan_create_in_tile_order(const vsa_plan* plan,
                                                 vsa_plan** tiled) VSA_NOEXCEPT;
/* The plan of the same tiles once their tokens stand one after the other, without padding. */
VSA_API vsa_status vsa_plan_create_in_compact_order(const vsa_plan* plan,
                                                    vsa_plan** compact) VSA_NOEXCEPT;
/* NULL is allowed. */
VSA_API void vsa_plan_destroy(vsa_plan* plan) VSA_NOEXCEPT;
/* info->struct_size is read. */
VSA_API vsa_status vsa_plan_get_info(const vsa_plan* plan, vsa_plan_info* info) VSA_NOEXCEPT;
/* Positions on the sequence axis of the tile's valid tokens; they live as long as the plan. */
VSA_API vsa_status vsa_plan_get_tile(const vsa_plan* plan, int64_t tile, const int32_t** tokens,
                                     int64_t* num_tokens) VSA_NOEXCEPT;
/* The edges of the cuboid of at most max_tokens tokens that fits a grid best; see best_tile in
 * vsa/tiling.h. */
VSA_API vsa_status vsa_best_tile(const int64_t grid[3], int64_t max_tokens,
                                 int64_t tile_shape[3]) VSA_NOEXCEPT;
/* max(1, min(ceil((1 - sparsity) * num_kv_tiles), num_kv_tiles)) in double. */
VSA_API vsa_status vsa_topk_from_sparsity(double sparsity, int64_t num_kv_tiles,
                                          int64_t* topk) VSA_NOEXCEPT;

/* --- arguments ----------------------------------------------------------------------------------
 */

typedef struct vsa_context {
  size_t struct_size;
  int32_t backend;     /* nothing ever runs on another one */
  int32_t num_threads; /* 0: as many as OpenMP gives */
  void* stream;        /* VSA_CUDA: the cudaStream_t, NULL is the default stream */
  void* workspace;     /* VSA_CUDA: device memory at a multiple of 256 bytes */
  int64_t workspace_bytes;
  /* If not NULL, a call checks its arguments, stores here how many bytes of workspace it needs, and
   * does nothing else. */
  int64_t* workspace_query;
} vsa_context;

/* A tensor that is written to: axes [B, H, S, D], strides in elements, last axis contiguous. */
typedef struct vsa_tensor {
  void* data;
  int32_t dtype;
  int64_t shape[4];
  int64_t stride[4];
} vsa_tensor;

/* A tensor that is only read. */
typedef struct vsa_const_tensor {
  const void* data;
  int32_t dtype;
  int64_t shape[4];
  int64_t stride[4];
} vsa_const_tensor;

/* Contiguous memory in the order [B, S, H, D] or [B, H, S, D]; checked only where it is used. */
VSA_API vsa_tensor vsa_bshd(void* data, int32_t dtype, int64_t b, int64_t s, int64_t h,
                            int64_t d) VSA_NOEXCEPT;
VSA_API vsa_tensor vsa_bhsd(void* data, int32_t dtype, int64_t b, int64_t h, int64_t s,
                            int64_t d) VSA_NOEXCEPT;
/* The same tensor, to be read. */
VSA_API vsa_const_tensor vsa_read(vsa_tensor tensor) VSA_NOEXCEPT;

typedef struct vsa_gate {
  int32_t kind;            /* VSA_GATE_...; 0 is refused */
  float constant;          /* for VSA_GATE_CONSTANT */
  vsa_const_tensor tensor; /* for VSA_GATE_TENSOR: [B, H, Sq, D] */
} vsa_gate;

/* Rows of ascending unique kv tiles; see vsa/lut.h. */
typedef struct vsa_lut {
  int32_t* index; /* [batch, num_heads, num_q_tiles, pitch] */
  int32_t* count; /* [batch, num_heads, num_q_tiles] */
  int64_t batch, num_heads, num_q_tiles, pitch;
} vsa_lut;

typedef struct vsa_const_lut {
  const int32_t* index;
  const int32_t* count;
  int64_t batch, num_heads, num_q_tiles, pitch;
} vsa_const_lut;

typedef struct vsa_select_options {
  int64_t topk;
  const int32_t* forced_columns; /* kv tiles that every row keeps */
  int64_t num_forced_columns;
  const int32_t* dense_rows; /* query tiles that keep everything */
  int64_t num_dense_rows;
} vsa_select_options;

/* The softmax scale; all zeros: 1 / sqrt(head_dim). */
typedef struct vsa_scale {
  int32_t is_set; /* 0 or 1 */
  float value;
} vsa_scale;

/* The least pitch of the table that vsa_select writes. */
VSA_API vsa_status vsa_lut_pitch(const vsa_select_options* options, int64_t num_kv_tiles,
                                 int64_t* pitch) VSA_NOEXCEPT;

/* --- the stages ---------------------------------------------------------------------------------
 */

typedef struct vsa_tile_args {
  size_t struct_size;
  vsa_const_tensor x;
  const vsa_plan* plan;
  vsa_tensor tiled;
} vsa_tile_args;
VSA_API vsa_status vsa_tile(const vsa_context* context, const vsa_tile_args* args) VSA_NOEXCEPT;

typedef struct vsa_untile_args {
  size_t struct_size;
  vsa_const_tensor tiled;
  const vsa_plan* plan;
  vsa_tensor x;
} vsa_untile_args;
VSA_API vsa_status vsa_untile(const vsa_context* context, const vsa_untile_args* args) VSA_NOEXCEPT;

typedef struct vsa_pool_args {
  size_t struct_size;
  vsa_const_tensor x;
  const vsa_plan* plan;
  vsa_tensor pooled;
} vsa_pool_args;
VSA_API vsa_status vsa_pool(const vsa_context* context, const vsa_pool_args* args) VSA_NOEXCEPT;

typedef struct vsa_norm_rope_pool_args {
  size_t struct_size;
  vsa_tensor x; /* read and written */
  const vsa_plan* plan;
  int32_t norm; /* VSA_NORM_OVER_... */
  float eps;
  vsa_const_tensor weight, rstd; /* each may be left out */
  vsa_const_tensor cos, sin;     /* may be left out together */
  vsa_tensor pooled;             /* may be left out */
} vsa_norm_rope_pool_args;
VSA_API vsa_status vsa_norm_rope_pool(const vsa_context* context,
                                      const vsa_norm_rope_pool_args* args) VSA_NOEXCEPT;

typedef struct vsa_linear_args {
  size_t struct_size;
  vsa_const_tensor x, weight;
  vsa_const_tensor bias; /* may be left out */
  int32_t activation;    /* VSA_ACTIVATION_... */
  vsa_tensor out;
} vsa_linear_args;
VSA_API vsa_status vsa_linear(const vsa_context* context, const vsa_linear_args* args) VSA_NOEXCEPT;

typedef struct vsa_residual_norm_args {
  size_t struct_size;
  vsa_tensor x;                  /* read, and written if y is given */
  vsa_const_tensor y, gate;      /* may be left out; no gate without y */
  vsa_const_tensor scale, shift; /* each may be left out; none without out */
  float eps;                     /* 0 is 0: set it, to 1e-6 say */
  int32_t norm;                  /* VSA_NORM_KIND_... */
  vsa_tensor out;                /* may be left out if y is given */
} vsa_residual_norm_args;
VSA_API vsa_status vsa_residual_norm(const vsa_context* context,
                                     const vsa_residual_norm_args* args) VSA_NOEXCEPT;

typedef struct vsa_relative_attention_args {
  size_t struct_size;
  vsa_const_tensor q, k, v, bias;
  vsa_scale scale;
  vsa_tensor out;
} vsa_relative_attention_args;
VSA_API vsa_status vsa_relative_attention(const vsa_context* context,
                                          const vsa_relative_attention_args* args) VSA_NOEXCEPT;

typedef struct vsa_conv3d_args {
  size_t struct_size;
  vsa_const_tensor x, weight;
  int64_t height, kernel_frames, kernel_edge;
  vsa_tensor out;
} vsa_conv3d_args;
VSA_API vsa_status vsa_conv3d(const vsa_context* context, const vsa_conv3d_args* args) VSA_NOEXCEPT;

typedef struct vsa_pixel_norm_args {
  size_t struct_size;
  vsa_const_tensor y, bias; /* bias may be left out */
  vsa_tensor x;           /* written, and read if it is added to; may be left out if out is given */
  int32_t residual;       /* VSA_RESIDUAL_... */
  vsa_const_tensor gamma; /* may be left out; none without out */
  int32_t activation;     /* VSA_ACTIVATION_... */
  vsa_tensor out;         /* may be left out if x is given */
} vsa_pixel_norm_args;
VSA_API vsa_status vsa_pixel_norm(const vsa_context* context,
                                  const vsa_pixel_norm_args* args) VSA_NOEXCEPT;

typedef struct vsa_upsample_args {
  size_t struct_size;
  vsa_const_tensor x, bias; /* bias may be left out */
  int64_t height, frames_each;
  vsa_tensor out;
} vsa_upsample_args;
VSA_API vsa_status vsa_upsample(const vsa_context* context,
                                const vsa_upsample_args* args) VSA_NOEXCEPT;

typedef struct vsa_softmax_args {
  size_t struct_size;
  vsa_const_tensor x;
  float scale; /* 0 is 0: set it */
  int64_t columns;
  vsa_tensor out;
} vsa_softmax_args;
VSA_API vsa_status vsa_softmax(const vsa_context* context,
                               const vsa_softmax_args* args) VSA_NOEXCEPT;

typedef struct vsa_pool_backward_args {
  size_t struct_size;
  vsa_const_tensor dpooled;
  const vsa_plan* plan;
  vsa_tensor dx;
} vsa_pool_backward_args;
VSA_API vsa_status vsa_pool_backward(const vsa_context* context,
                                     const vsa_pool_backward_args* args) VSA_NOEXCEPT;

typedef struct vsa_coarse_args {
  size_t struct_size;
  vsa_const_tensor q_pooled, k_pooled, v_pooled;
  const vsa_plan* kv_plan;
  vsa_scale scale;
  int32_t rounding;         /* VSA_ROUNDING_... */
  vsa_tensor coarse_scores; /* may be left out */
  vsa_tensor coarse_out;    /* may be left out */
} vsa_coarse_args;
VSA_API vsa_status vsa_coarse(const vsa_context* context, const vsa_coarse_args* args) VSA_NOEXCEPT;

typedef struct vsa_coarse_backward_args {
  size_t struct_size;
  vsa_const_tensor q_pooled, k_pooled, v_pooled;
  const vsa_plan* kv_plan;
  vsa_scale scale;
  vsa_const_tensor dcoarse_out;
  vsa_tensor dq_pooled, dk_pooled, dv_pooled;
} vsa_coarse_backward_args;
VSA_API vsa_status vsa_coarse_backward(const vsa_context* context,
                                       const vsa_coarse_backward_args* args) VSA_NOEXCEPT;

typedef struct vsa_select_args {
  size_t struct_size;
  vsa_const_tensor coarse_scores;
  vsa_select_options options;
  vsa_lut lut;
} vsa_select_args;
VSA_API vsa_status vsa_select(const vsa_context* context, const vsa_select_args* args) VSA_NOEXCEPT;

typedef struct vsa_fine_args {
  size_t struct_size;
  vsa_const_tensor q, k, v;
  const vsa_plan* q_plan;
  const vsa_plan* kv_plan;
  vsa_const_lut lut;
  vsa_scale scale;
  vsa_tensor out;
  vsa_tensor lse;           /* may be left out */
  int64_t last_key_repeats; /* further keys that equal the last token of kv_plan */
} vsa_fine_args;
VSA_API vsa_status vsa_fine(const vsa_context* context, const vsa_fine_args* args) VSA_NOEXCEPT;

typedef struct vsa_fine_backward_args {
  size_t struct_size;
  vsa_const_tensor q, k, v;
  const vsa_plan* q_plan;
  const vsa_plan* kv_plan;
  vsa_const_lut lut;
  vsa_scale scale;
  vsa_const_tensor out, lse, dout;
  vsa_tensor dq, dk, dv;
} vsa_fine_backward_args;
VSA_API vsa_status vsa_fine_backward(const vsa_context* context,
                                     const vsa_fine_backward_args* args) VSA_NOEXCEPT;

typedef struct vsa_combine_args {
  size_t struct_size;
  vsa_const_tensor fine_out;
  vsa_const_tensor coarse_out; /* may be left out if gate_coarse is the constant 0 */
  vsa_gate gate_coarse, gate_fine;
  const vsa_plan* q_plan;
  vsa_tensor out;
} vsa_combine_args;
VSA_API vsa_status vsa_combine(const vsa_context* context,
                               const vsa_combine_args* args) VSA_NOEXCEPT;

typedef struct vsa_combine_backward_args {
  size_t struct_size;
  vsa_const_tensor fine_out, coarse_out;
  vsa_gate gate_coarse, gate_fine;
  const vsa_plan* q_plan;
  vsa_const_tensor dout;
  vsa_tensor dfine_out;
  vsa_tensor dcoarse_out, dgate_coarse, dgate_fine; /* each may be left out */
} vsa_combine_backward_args;
VSA_API vsa_status vsa_combine_backward(const vsa_context* context,
                                        const vsa_combine_backward_args* args) VSA_NOEXCEPT;

/* --- the whole operator -------------------------------------------------------------------------
 */

typedef struct vsa_attention_args {
  size_t struct_size;
  vsa_const_tensor q, k, v;
  vsa_gate gate_coarse, gate_fine;
  const vsa_plan* q_plan;
  const vsa_plan* kv_plan;
  vsa_select_options select; /* not read if lut is given */
  vsa_const_lut lut;         /* the caller's own selection; may be left out */
  vsa_scale scale;
  int32_t rounding; /* VSA_ROUNDING_... of the coarse stage */
  vsa_const_tensor q_pooled, k_pooled,
      v_pooled;                /* means that exist already; each may be left out */
  vsa_const_tensor coarse_out; /* if it exists already; may be left out */
  vsa_tensor out;
  vsa_tensor lse, fine_out; /* each may be left out; backward needs them */
  vsa_lut lut_out;          /* the selection that ran; may be left out */
} vsa_attention_args;
VSA_API vsa_status vsa_attention_forward(const vsa_context* context,
                                         const vsa_attention_args* args) VSA_NOEXCEPT;

typedef struct vsa_attention_backward_args {
  size_t struct_size;
  vsa_const_tensor q, k, v;
  vsa_gate gate_coarse, gate_fine;
  const vsa_plan* q_plan;
  const vsa_plan* kv_plan;
  vsa_const_lut lut; /* the selection that forward used */
  vsa_scale scale;
  vsa_const_tensor lse, fine_out; /* from forward */
  vsa_const_tensor dout;
  vsa_tensor dq, dk, dv;
  vsa_tensor dgate_coarse, dgate_fine; /* each may be left out */
} vsa_attention_backward_args;
VSA_API vsa_status vsa_attention_backward(const vsa_context* context,
                                          const vsa_attention_backward_args* args) VSA_NOEXCEPT;

/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif

#endif /* VSA_C_API_H_ */
