"""FastVideo: its kernel package, served by vsa. Run this before fastvideo is imported."""

import sys

from vsa_torch.compat import fastvideo

# FastVideo asks for fastvideo_kernel.ops before it offers the backend VIDEO_SPARSE_ATTN.
sys.modules["fastvideo_kernel"] = sys.modules["fastvideo_kernel.ops"] = fastvideo

# From here on FastVideo's own lines find vsa behind them:
from fastvideo_kernel import video_sparse_attn  # noqa: E402
from fastvideo_kernel import build_vsa_metadata  # noqa: E402, F401
