"""The implementation that install() puts into FastVideo against FastVideo's own layer, from its wheels, in float64."""

import importlib
import os
import subprocess
import sys
import threading

import pytest
import torch
import torch._dynamo.testing
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import vsa_torch
from fastvideo_layers import NEWEST, VERSIONS, Ranks, call, fastvideo_wheel, kernel, loaded
from vsa_torch.compat import fastvideo as compat

CPU = torch.device("cpu")
GRIDS = [(8, 8, 4), (5, 6, 8), (3, 5, 9)]  # tiles that are full; as in 21 x 30 x 52; none of them full
SPARSITY = 0.6


@pytest.fixture
def fastvideo(request):
    """FastVideo of one version, freshly loaded: with its own methods."""
    yield loaded(getattr(request, "param", NEWEST))
    fastvideo_wheel.unload()


every_version = pytest.mark.parametrize("fastvideo", VERSIONS, indirect=True)


def inputs(make, grid, heads=2, head_dim=16, batch=2, padding=0, **more):
    tokens = grid[0] * grid[1] * grid[2] + padding
    return [make(batch, tokens, heads, head_dim, **more) for _ in range(4)]


def doubles(tensors):
    return [t.detach().double().requires_grad_() for t in tensors]


def theirs(fastvideo, grid, tensors, dout, **more):
    """(output, gradients) of FastVideo's own layer in float64."""
    attn = fastvideo_wheel.attention(fastvideo, tensors[0].shape[2], tensors[0].shape[3])
    exact = doubles(tensors)
    out = call(fastvideo, attn, fastvideo_wheel.metadata(fastvideo, grid, SPARSITY, CPU), *exact, **more)
    return out, torch.autograd.grad(out, exact, dout.double())


@every_version
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_layer_gives_what_fastvideos_gives(fastvideo, make, close, grid, dtype):
    tensors = inputs(make, grid, dtype=dtype, requires_grad=True)
    dout = make(*tensors[0].shape, dtype=dtype)
    want, want_grads = theirs(fastvideo, grid, tensors, dout)
    attn = fastvideo_wheel.attention(fastvideo, 2, 16)  # made before install()
    compat.install()
    out = call(fastvideo, attn, fastvideo_wheel.metadata(fastvideo, grid, SPARSITY, CPU), *tensors)
    assert out.dtype == dtype
    close(out, want)
    for grad, expected in zip(torch.autograd.grad(out, tensors, dout), want_grads):
        close(grad, expected, roundings=16)


@pytest.mark.parametrize("fastvideo", ["0.1.7", "0.2.0", "0.2.1"], indirect=True)
def test_padding_of_sequence_parallelism_and_rotary_embedding(fastvideo, make, close):
    grid, padding = (5, 6, 7), 6
    tensors = inputs(make, grid, padding=padding, requires_grad=True)
    dout, angle = make(*tensors[0].shape), make(210, 8)
    more = dict(freqs_cis=(angle.cos(), angle.sin()), length=210 + padding)
    want, want_grads = theirs(fastvideo, grid, tensors, dout, **more)
    compat.install()
    out = call(fastvideo, fastvideo_wheel.attention(fastvideo, 2, 16),
               fastvideo_wheel.metadata(fastvideo, grid, SPARSITY, CPU), *tensors, **more)
    assert out.shape == tensors[0].shape and not out[:, 210:].any()
    close(out, want)
    for grad, expected in zip(torch.autograd.grad(out, tensors, dout), want_grads):
        close(grad, expected, roundings=16)


@every_version
def test_several_ranks_of_sequence_parallelism(fastvideo, make, close):
    """Each rank has a part of the sequence outside and a part of the heads inside, in raster order."""
    grid = (5, 6, 7)
    tensors = inputs(make, grid, heads=4, requires_grad=True)
    dout = make(*tensors[0].shape)
    want, want_grads = theirs(fastvideo, grid, tensors, dout)
    compat.install()
    group = fastvideo.parallel._SP = Ranks(2)
    metadata = fastvideo_wheel.metadata(fastvideo, grid, SPARSITY, CPU)
    attn = fastvideo_wheel.attention(fastvideo, 4, 16)
    more = {"original_seq_len": 210} if fastvideo.version >= "0.2" else {}

    def on_rank(rank):
        q, k, v, gate = (t.chunk(2, 1)[rank] for t in tensors)
        return attn(q, k, v, gate_compress=gate, **more)[0]

    with fastvideo.context.set_forward_context(0, metadata):
        out = torch.cat(group.run(on_rank), 1)
    close(out, want)
    for grad, expected in zip(torch.autograd.grad(out, tensors, dout), want_grads):
        close(grad, expected, roundings=16)


@every_version
def test_the_ranks_of_these_tests_exchange_as_fastvideos_do(fastvideo, make, monkeypatch):
    """Its own all-to-all, over processes that are threads."""
    communicator = importlib.import_module("fastvideo.distributed.device_communicators.base_device_communicator")
    group, x, y = Ranks(2), make(2, 12, 4, 8), make(2, 24, 2, 8)
    monkeypatch.setattr(communicator.dist, "all_to_all_single", lambda output, sent, group: output.copy_(
        group.all_to_all_4D(sent, 0, 0)))
    for tensor, axes in ((x, (2, 1)), (y, (1, 2))):
        def both(rank, tensor=tensor, axes=axes):
            mine = tensor + rank
            return (group.all_to_all_4D(mine, *axes),
                    communicator.DistributedAutograd.AllToAll4D.apply(group, mine, 2, *axes))

        for ours, real in group.run(both):
            assert torch.equal(ours, real)


@every_version
def test_as_many_tiles_are_kept(fastvideo, monkeypatch):
    impl = fastvideo_wheel.attention(fastvideo, 1, 16).attn_impl
    x = torch.zeros(1, 1, 1, 1)
    cases = [fastvideo_wheel.metadata(fastvideo, grid, sparsity, CPU)
             for grid in ((8, 64, 64), (21, 30, 52), (5, 6, 7), (1, 1, 1))
             for sparsity in (-0.5, 0.0, 0.1, 0.5, 0.7, 0.875, 0.9, 0.999, 1.0)]

    def kept(metadata):
        return impl.forward(x, x, x, x, metadata)[0, 0, 0, 0].item()

    monkeypatch.setattr(fastvideo.backend, "video_sparse_attn", lambda q, k, v, *args, topk=None, **_: torch.full(
        (1, 1, 1, 1), args[2] if topk is None else topk))
    want = [kept(metadata) for metadata in cases]
    monkeypatch.setattr(vsa_torch.attention, "video_sparse_attention", lambda *_, topk, **__: torch.full(
        (1, 1, 1, 1), topk))
    compat.install()
    # More than there are is all for FastVideo's kernels.
    assert [kept(metadata) for metadata in cases] == [min(topk, metadata.variable_block_sizes.numel())
                                                      for topk, metadata in zip(want, cases)]


class Recorded(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))


@every_version
def test_nothing_but_the_operator_runs(fastvideo, make):
    """No copy, no order of tiles, and nothing that the host would have to wait for."""
    grid = (5, 6, 7)
    compat.install()
    attn = fastvideo_wheel.attention(fastvideo, 2, 16)
    metadata = fastvideo_wheel.metadata(fastvideo, grid, SPARSITY, CPU)
    tensors = inputs(make, grid)
    with torch.no_grad(), Recorded() as ran:
        call(fastvideo, attn, metadata, *tensors)
    assert ran.names == ["vsa::video_sparse_attention"]
    x = torch.cat(tensors)
    assert attn.attn_impl.preprocess_qkv(x, metadata) is x and attn.attn_impl.postprocess_output(x, metadata) is x
    assert getattr(metadata, "tile_buf", None) is None


def test_a_gate_of_none_is_zero(fastvideo, make, close):
    """The layer takes None for a gate that is always 0, and FastVideo's implementation then fails."""
    grid = (5, 6, 7)
    q, k, v, _ = inputs(make, grid)
    want, _ = theirs(fastvideo, grid, [q, k, v, torch.zeros_like(q)], torch.zeros_like(q))
    compat.install()
    attn = fastvideo_wheel.attention(fastvideo, 2, 16)
    metadata = fastvideo_wheel.metadata(fastvideo, grid, SPARSITY, CPU)
    close(call(fastvideo, attn, metadata, q, k, v, None), want)
    close(attn.attn_impl.forward(q, k, v, None, metadata), want)


def test_tensors_that_a_concatenation_would_unite(fastvideo, make, close):
    """Of several dtypes, or with a last axis that is not contiguous."""
    grid = (5, 6, 7)
    q, k, v, gate = inputs(make, grid)
    v, gate = v.bfloat16(), gate.bfloat16()
    k = k.transpose(2, 3).contiguous().transpose(2, 3)
    want, _ = theirs(fastvideo, grid, [q, k, v, gate], torch.zeros_like(q))
    compat.install()
    out = call(fastvideo, fastvideo_wheel.attention(fastvideo, 2, 16),
               fastvideo_wheel.metadata(fastvideo, grid, SPARSITY, CPU), q, k, v, gate)
    assert out.dtype == torch.float32
    close(out, want)


def test_another_tile_follows_fastvideos_constant(fastvideo, make, close, monkeypatch):
    grid = (5, 10, 12)
    tensors = inputs(make, grid)
    monkeypatch.setattr(fastvideo.backend, "VSA_TILE_SIZE", (2, 4, 8))
    monkeypatch.setattr(fastvideo.backend.construct_variable_block_sizes.__wrapped__, "__defaults__", ((2, 4, 8),))
    want, _ = theirs(fastvideo, grid, tensors, torch.zeros_like(tensors[0]))
    compat.install()
    close(call(fastvideo, fastvideo_wheel.attention(fastvideo, 2, 16),
               fastvideo_wheel.metadata(fastvideo, grid, SPARSITY, CPU), *tensors), want)


@pytest.mark.parametrize("reentrant", [False, True])
def test_training_under_checkpointing(fastvideo, make, close, reentrant):
    grid = (5, 6, 7)
    tensors = inputs(make, grid, requires_grad=True)
    dout = make(*tensors[0].shape)
    _, want_grads = theirs(fastvideo, grid, tensors, dout)
    compat.install()
    attn = fastvideo_wheel.attention(fastvideo, 2, 16)
    metadata = fastvideo_wheel.metadata(fastvideo, grid, SPARSITY, CPU)
    # FastVideo holds its context during backward, too.
    with fastvideo.context.set_forward_context(0, metadata):
        out = checkpoint(lambda q, k, v, g: attn(q, k, v, 210, gate_compress=g)[0], *tensors, use_reentrant=reentrant)
        out.backward(dout)
    for tensor, expected in zip(tensors, want_grads):
        close(tensor.grad, expected, roundings=16)


@pytest.mark.parametrize("version", ["0.1.7", NEWEST])
def test_compiled_without_a_break(version):
    """In a process of its own: torch.compile remembers modules by name, and here several have the same."""
    loaded(version)
    fastvideo_wheel.unload()
    run = subprocess.run([sys.executable, "-c", f"import {__name__} as t; t.compile_without_a_break('{version}')"],
                         env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def compile_without_a_break(version):
    """A new step brings new metadata of the same video: it is the same graph. Another sparsity has another."""
    fastvideo = loaded(version)
    compat.install()
    attn = fastvideo_wheel.attention(fastvideo, 2, 16)
    tensors = [torch.randn(1, 210, 2, 16) for _ in range(4)]
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(attn, fullgraph=True, backend=counter)
    for step, sparsity in enumerate((0.6, 0.6, 0.6, 0.2)):
        metadata = fastvideo_wheel.metadata(fastvideo, (5, 6, 7), sparsity, CPU)
        metadata.current_timestep = step
        out = call(fastvideo, compiled, metadata, *tensors)
        assert torch.equal(out, call(fastvideo, attn, metadata, *tensors))
        assert (counter.frame_count == 1) == (sparsity == 0.6)
    operators = [node for node in counter.graphs[0].graph.nodes if "video_sparse_attention" in str(node.target)]
    assert len(operators) == 1


def test_threads_with_other_videos(fastvideo, make):
    compat.install()
    impl = fastvideo_wheel.attention(fastvideo, 2, 16).attn_impl
    cases = []
    for grid in ((4, 6, 8), (4, 8, 6)):
        metadata = fastvideo_wheel.metadata(fastvideo, grid, SPARSITY, CPU)
        tensors = inputs(make, grid)
        cases.append((tensors, metadata, impl.forward(*tensors, metadata)))
    wrong = []

    def run(tensors, metadata, want):
        for _ in range(20):
            if not torch.equal(impl.forward(*tensors, metadata), want):
                wrong.append(metadata.dit_seq_shape)

    threads = [threading.Thread(target=run, args=case) for case in cases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_subclass_with_methods_of_its_own_keeps_the_order_of_tiles(fastvideo, make, close):
    """Raster order must not meet tile order: the three methods go together."""
    grid = (5, 6, 7)
    tensors = inputs(make, grid)

    class Scaled(fastvideo.backend.VideoSparseAttentionImpl):
        def forward(self, *args):
            return 2 * super().forward(*args)

    compat.install()
    metadata = fastvideo_wheel.metadata(fastvideo, grid, SPARSITY, CPU)
    attn = fastvideo_wheel.attention(fastvideo, 2, 16)
    plain = call(fastvideo, attn, metadata, *tensors)
    attn.attn_impl = Scaled(2, 16, False, None)
    close(2 * plain, call(fastvideo, attn, metadata, *doubles(tensors)))


def test_a_video_of_another_length_is_refused(fastvideo, make):
    compat.install()
    attn = fastvideo_wheel.attention(fastvideo, 2, 16)
    metadata = fastvideo_wheel.metadata(fastvideo, (5, 6, 8), SPARSITY, CPU)
    with pytest.raises(ValueError, match="query: expected a sequence of 240, as grid says"):
        attn.attn_impl.forward(*inputs(make, (5, 6, 7)), metadata)


def test_the_drop_in_serves_fastvideos_own_methods(fastvideo, make, close):
    """Without install(): the order of tiles, copies and all, over vsa's kernels."""
    grid = (5, 6, 7)
    tensors = inputs(make, grid)
    assert fastvideo.backend.video_sparse_attn is kernel
    want, _ = theirs(fastvideo, grid, tensors, torch.zeros_like(tensors[0]))
    fastvideo.backend.video_sparse_attn = compat.video_sparse_attn
    close(call(fastvideo, fastvideo_wheel.attention(fastvideo, 2, 16),
               fastvideo_wheel.metadata(fastvideo, grid, SPARSITY, CPU), *tensors), want)
