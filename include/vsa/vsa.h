// Video Sparse Attention: the whole public surface in one include. Host-only.
//
// N tiles of T tokens; H_kv heads for k and v:
//
// tokens [B,S,H,D] raster --tile--> q,k,v [B,H,N*T,D] tile order
//   |
//   +--pool----> q_pooled,k_pooled,v_pooled [B,H,N,D]
//   |              `--coarse--> coarse_scores [B,H,Nq,Nk], coarse_out [B,H,Nq,D]
//   |                  `--select--> lut [B,H,Nq,topk], lut_count [B,H,Nq]
//   `--fine(lut)-> fine_out [B,H,Nq*T,D], lse [B,H,Nq*T]
//
// gate_coarse * broadcast(coarse_out) + gate_fine * fine_out = combine --untile--> out [B,S,H,D]
// raster
#pragma once

#include "vsa/attention.h"
#include "vsa/backend.h"
#include "vsa/conv3d.h"
#include "vsa/device_memory.h"
#include "vsa/element.h"
#include "vsa/half.h"
#include "vsa/linear.h"
#include "vsa/lut.h"
#include "vsa/norm_rope_pool.h"
#include "vsa/pixel_norm.h"
#include "vsa/relative_attention.h"
#include "vsa/residual_norm.h"
#include "vsa/softmax.h"
#include "vsa/stages.h"
#include "vsa/status.h"
#include "vsa/tensor.h"
#include "vsa/tile_mask.h"
#include "vsa/tiling.h"
#include "vsa/upsample.h"
#include "vsa/vendor_library.h"
#include "vsa/version.h"
