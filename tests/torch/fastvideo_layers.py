"""FastVideo's own attention layer for the tests: its wheels, its kernel restated in float64, its sequence parallelism."""

import os
import sys
import threading
from pathlib import Path

import pytest
import torch

from test_compat_fastvideo import restated

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench/gpu"))

import fastvideo_layer  # noqa: E402, F401
import fastvideo_wheel  # noqa: E402

VERSIONS = ("0.1.4", "0.1.5", "0.1.6", "0.1.7", "0.2.0", "0.2.1")
NEWEST = VERSIONS[-1]


def wheel(version):
    """The path of FastVideo's wheel; skips, with the reason, where it is not there."""
    folder = os.environ.get("VSA_FASTVIDEO_WHEELS")
    if not folder:
        pytest.skip("VSA_FASTVIDEO_WHEELS names no folder with FastVideo's wheels; tools/fastvideo_wheels.sh fills one")
    found = sorted(Path(folder).glob(f"fastvideo-{version}-*.whl"))
    if not found:
        pytest.skip(f"no wheel of FastVideo {version} in {folder}; tools/fastvideo_wheels.sh fetches it")
    return found[0]


def loaded(version):
    """FastVideo's modules of that version, its kernel restated."""
    found = fastvideo_wheel.load(wheel(version))
    assert found.version == version
    found.backend.video_sparse_attn = kernel
    return found


def kernel(q, k, v, variable_block_sizes, q_variable_block_sizes=None, topk=None, block_size=None,
           compress_attn_weight=None):
    """fastvideo_kernel.video_sparse_attn for float64, of which the rows of padding do not count."""
    sizes = variable_block_sizes
    tokens = block_size[0] * block_size[1] * block_size[2]
    return restated(q, k, v, sizes, sizes if q_variable_block_sizes is None else q_variable_block_sizes,
                    min(topk, len(sizes)), tokens, compress_attn_weight)


def call(fastvideo, attn, metadata, q, k, v, gate, freqs_cis=None, length=None):
    """attn's forward as a Wan block of that version calls it, under its forward context; q [B, S, H, D], of which
    the first `length` tokens of the whole sequence are no padding."""
    more = {} if freqs_cis is None else {"freqs_cis": freqs_cis}
    if fastvideo.version >= "0.2":
        more["original_seq_len"] = metadata.total_seq_length
    elif length is not None:
        mask = torch.zeros(q.shape[0], length)
        mask[:, :metadata.total_seq_length] = 1
        more["attention_mask"] = mask
    with fastvideo.context.set_forward_context(0, metadata):
        out, replicated = attn(q, k, v, gate_compress=gate, **more)
    assert replicated is None
    return out


class Ranks:
    """In the place of a sequence-parallel group: the ranks are threads of this process."""

    def __init__(self, world_size):
        self.world_size = world_size
        self._mine = threading.local()
        self._sent = [None] * world_size
        self._barrier = threading.Barrier(world_size)

    @property
    def rank_in_group(self):
        return self._mine.rank

    def all_to_all_4D(self, x, scatter_dim=2, gather_dim=1):
        self._sent[self.rank_in_group] = x
        self._barrier.wait(60)
        parts = [sent.chunk(self.world_size, scatter_dim)[self.rank_in_group] for sent in self._sent]
        self._barrier.wait(60)
        return torch.cat(parts, gather_dim)

    def run(self, function):
        """[function(rank) on every rank]"""
        results, errors = [None] * self.world_size, []

        def of_rank(rank):
            self._mine.rank = rank
            try:
                results[rank] = function(rank)
            except Exception as e:
                errors.append(e)
                self._barrier.abort()

        threads = [threading.Thread(target=of_rank, args=(rank,)) for rank in range(self.world_size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return results
