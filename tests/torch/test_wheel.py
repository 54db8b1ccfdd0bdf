"""The wheel of vsa_torch: built over the libvsa of this build, installed into a fresh environment, and used there."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Every tile is kept, so the operator is dense attention.
USE = """
import importlib.metadata, pathlib, sys, torch, vsa_torch
folder = pathlib.Path(vsa_torch.__file__).resolve().parent
assert folder.is_relative_to(sys.prefix), folder
assert importlib.metadata.version("vsa-torch") == "0.1.0"
query, key, value = torch.randn(3, 1, 4 * 8 * 8, 2, 16, generator=torch.Generator().manual_seed(3))
out = vsa_torch.video_sparse_attention(query, key, value, grid=(4, 8, 8), sparsity=0)
dense = torch.nn.functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (query, key, value)))
assert (out - dense.transpose(1, 2)).abs().max() < 1e-5
print("as dense")
"""


def run(*command, **options):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, env=environment,
                          **options)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Compiles the operators again, by way of pip, and links the libvsa that is there."""
    pytest.importorskip("scikit_build_core")
    library = os.environ.get("VSA_LIBRARY")
    build = Path(library).resolve().parents[1] if library else None
    if build is None or not (build / "cmake_install.cmake").exists():
        pytest.skip("VSA_LIBRARY does not name the libvsa.so of a build")
    folder = tmp_path_factory.mktemp("wheel")
    run("cmake", "--install", build, "--component", "vsa_development", "--prefix", folder / "prefix")
    run(sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", ROOT, "--no-deps", "--no-index",
        "--no-build-isolation", "-w", folder, "-C", f"cmake.define.VSA_INSTALLED={folder / 'prefix'}",
        "-C", "cmake.define.VSA_CUDA=OFF")
    (made,) = folder.glob("*.whl")
    return made


def test_wheel_serves_every_python_and_holds_the_package_alone(wheel):
    assert wheel.name.startswith("vsa_torch-0.1.0-py3-none-linux_")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read("vsa_torch-0.1.0.dist-info/METADATA").decode()
    assert "vsa_torch/_vsa_ops.so" in names and "vsa_torch/__init__.py" in names
    assert {name.split("/")[0] for name in names} == {"vsa_torch", "vsa_torch-0.1.0.dist-info"}
    sources = {str(path.relative_to(ROOT / "bindings" / "torch"))
               for path in (ROOT / "bindings" / "torch" / "vsa_torch").rglob("*.py")}
    assert sources <= set(names), sources - set(names)
    assert "Requires-Dist: torch>=2.10" in metadata


def test_wheel_installs_into_a_fresh_environment_and_runs(wheel, tmp_path):
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    # PyTorch takes gigabytes: the environment sees the one that is there.
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    (Path(site) / "torch.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run(python, "-m", "pip", "--disable-pip-version-check", "install", "--no-deps", "--no-index", wheel)
    assert run(python, "-c", USE, cwd=tmp_path) == "as dense\n"
