"""An error of libvsa is the same Python exception with every version of PyTorch, wherever the operator is called."""

import pytest
import torch

import vsa_torch
from vsa_torch import _errors

GRID, TILE = (4, 4, 8), (4, 4, 4)


@pytest.fixture
def x(make):
    return make(1, 128, 1, 16)


def wrong_list():
    """Two rows, of which the second names a tile that is not there."""
    return torch.tensor([[[[0], [2]]]], dtype=torch.int32), torch.ones(1, 1, 2, dtype=torch.int32)


@pytest.mark.parametrize("of", [lambda packet: packet, lambda packet: packet.default], ids=["packet", "overload"])
def test_p18_operators_called_directly(x, of):
    with pytest.raises(ValueError, match=r"^\[tile\] grid: expected"):
        of(torch.ops.vsa.tile)(x, (4, 4), TILE, [])
    with pytest.raises(ValueError, match=r"^\[backend\] name: expected reference, cpu, cuda or hip, got tpu"):
        of(torch.ops.vsa.implements)("tpu", "fine")
    with pytest.raises(NotImplementedError, match=r"^\[tile\] .*head_dim"):
        odd = torch.ones(1, 128, 1, 12)
        of(torch.ops.vsa.tile)(odd, GRID, TILE, [])
    with pytest.raises(ValueError, match=r"^\[fine\] lut: expected"), torch.inference_mode():
        of(torch.ops.vsa.block_sparse_attention)(x, x, x, *wrong_list(), TILE, GRID, GRID, [], [], None)


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_p18_functions(x, mode, requires_grad):
    query = x.clone().requires_grad_(requires_grad)
    with mode(), pytest.raises(ValueError, match=r"^\[fine\] lut: expected"):
        vsa_torch.block_sparse_attention(query, x, x, *wrong_list(), grid=GRID)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_p18_compiled_graphs(x, backend, requires_grad):
    """What only the values in a list decide comes when the graph runs, not when it is made."""
    torch._dynamo.reset()
    query = x.clone().requires_grad_(requires_grad)

    def attend(query, lut, count):
        return vsa_torch.block_sparse_attention(query * 2, x, x, lut, count, grid=GRID)

    with pytest.raises(ValueError, match=r"^\[fine\] lut: expected"):
        torch.compile(attend, fullgraph=True, backend=backend)(query, *wrong_list())


@pytest.mark.parametrize("compiled", [False, True])
def test_p18_backward(x, compiled):
    """A list that is overwritten between forward and backward."""
    torch._dynamo.reset()
    query = x.clone().requires_grad_()
    lut, count = torch.zeros(1, 1, 2, 1, dtype=torch.int32), torch.ones(1, 1, 2, dtype=torch.int32)

    def attend(query, lut, count):
        return vsa_torch.block_sparse_attention(query, x, x, lut, count, grid=GRID)

    out = (torch.compile(attend, fullgraph=True, backend="aot_eager") if compiled else attend)(query, lut, count)
    lut.data.fill_(2)
    with pytest.raises(ValueError, match=r"^\[fine_backward\] lut: expected"):
        out.sum().backward()


@pytest.mark.parametrize("code, error", [("InvalidArgument", ValueError), ("OutOfMemory", torch.OutOfMemoryError),
                                         ("Unsupported", NotImplementedError)])
def test_p18_every_code_becomes_its_exception(code, error):
    def failing():
        raise RuntimeError(f"{code}: [x] y: why")

    with pytest.raises(error, match=r"^\[x\] y: why$") as caught:
        _errors.translating(failing)()
    assert type(caught.value) is error


def test_p18_errors_that_are_not_of_the_library_stay():
    for text in ("Internal: [x] z", "expected scalar type", ""):
        other = RuntimeError(text)
        assert _errors.translated(other) is other


def test_memory_that_there_is_not_is_an_out_of_memory_error():
    """A token in a tile of 256: tile() wants 2^48 bytes, more than a process can address, for 1 KiB that is given."""
    tokens = 2**23 - 1
    x = torch.zeros(1, 1, 1, 256).expand(1, tokens, 128, 256)
    with pytest.raises(torch.OutOfMemoryError, match=r"memory: expected room for a tensor \[1,2147483392,128,256\]"):
        vsa_torch.tile(x, grid=(tokens, 1, 1), tile_shape=(1, 16, 16))


def test_sizes_beyond_int64_are_an_out_of_memory_error():
    tokens = 2**20
    x = torch.zeros(1, 1, 1, 256).expand(1, tokens, 2**34, 256)
    with pytest.raises(torch.OutOfMemoryError, match="memory: expected room for a tensor"):
        vsa_torch.tile(x, grid=(tokens, 1, 1), tile_shape=(1, 16, 16))
