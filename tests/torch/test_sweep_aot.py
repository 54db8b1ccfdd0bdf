"""Models that torch.export and AOTInductor compile ahead of time. AOTInductor (PyTorch 2.11) hands an empty list of
SymInt to an operator as None, which the dispatcher refuses, so the operators are given None where a list is empty."""

import pytest
import torch

import vsa_torch

GRID = (5, 6, 7)
TILES = 8


class Operators(torch.nn.Module):
    """Every operator, in raster order without and with a prefix, and in tile order."""

    def forward(self, x):
        video = x[:, :210]
        _, lut, count = vsa_torch.coarse_select(video, video, video, grid=GRID, topk=3)
        tiled = vsa_torch.tile(video, grid=GRID)
        lengths = [64] * TILES
        return (vsa_torch.video_sparse_attention(video, video, video, grid=GRID, topk=3),
                vsa_torch.video_sparse_attention(x, x, x, grid=GRID, topk=3, prefix=[30]),
                vsa_torch.video_sparse_attention(tiled, tiled, tiled, q_tile_len=lengths, topk=3),
                vsa_torch.block_sparse_attention(video, video, video, lut, count, grid=GRID),
                vsa_torch.block_sparse_attention(tiled, tiled, tiled, lut, count, q_tile_len=lengths),
                vsa_torch.untile(tiled, grid=GRID))


@pytest.fixture
def exported(make):
    x = make(1, 240, 2, 16)
    return x, torch.export.export(Operators(), (x,))


def test_sweep_exported_operators_have_no_empty_list(exported):
    x, program = exported
    nodes = [node for node in program.graph.nodes if str(node.target).startswith("vsa.")]
    assert len(nodes) == 8
    assert not [(node.target, node.args) for node in nodes if any(arg == [] or arg == () for arg in node.args)]


def test_sweep_empty_lists_and_none_are_the_same(make):
    x = make(1, 210, 2, 16)
    assert torch.equal(torch.ops.vsa.tile(x, GRID, (4, 4, 4), []), torch.ops.vsa.tile(x, GRID, (4, 4, 4), None))


def test_sweep_an_operator_without_its_grid_is_refused(make):
    with pytest.raises(ValueError, match="grid: expected"):
        torch.ops.vsa.tile(make(1, 210, 2, 16), None, (4, 4, 4), None)


def test_sweep_aot_inductor(exported, tmp_path):
    x, program = exported
    package = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "operators.pt2"))
    for found, want in zip(torch._inductor.aoti_load_package(package)(x), Operators()(x), strict=True):
        assert torch.equal(found, want)
