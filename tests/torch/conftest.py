"""What all tests of vsa_torch share: seeded inputs and a comparison with a stated bound."""

import pytest
import torch

import vsa_torch  # noqa: F401  loads torch.ops.vsa

EPS = {torch.float64: 2.0**-52, torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}


@pytest.fixture
def make():
    """make(*shape, dtype=...): normal numbers, another tensor on every call, the same in every run."""
    generator = torch.Generator().manual_seed(20250513)

    def tensor(*shape, dtype=torch.float32, requires_grad=False):
        values = torch.randn(*shape, generator=generator, dtype=torch.float64)
        return values.to(dtype).requires_grad_(requires_grad)

    return tensor


@pytest.fixture
def close():
    """close(actual, expected, roundings): within that many eps of actual's dtype, times the largest
    magnitude of expected, plus the fp32 sums (512 roundings at 2^-24: longer than any sum here)."""

    def check(actual, expected, roundings=4):
        assert actual.shape == expected.shape
        assert not actual.isnan().any()
        # Arithmetic is fp32 for every dtype but float64.
        sums = 512 * (2.0**-53 if actual.dtype == torch.float64 else 2.0**-24)
        bound = (roundings * EPS[actual.dtype] + sums) * expected.abs().max().item()
        worst = (actual.double() - expected.double()).abs().max().item()
        assert worst <= bound, f"off by {worst:.3g}, allowed are {bound:.3g}"

    return check


@pytest.fixture
def model():
    """A tiny random Wan transformer of diffusers."""
    pytest.importorskip("diffusers")
    import tiny_wan

    return tiny_wan.transformer()


def pytest_runtest_setup(item):
    """Tests marked gpu skip where they cannot run, with the reason."""
    if item.get_closest_marker("gpu") is None:
        return
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    if not torch.ops.vsa.implements("cuda", "attention_forward"):
        pytest.skip("vsa_torch was built without the CUDA backend")
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip(f"the CUDA backend is for compute capability 9.0, not {torch.cuda.get_device_capability()}")
