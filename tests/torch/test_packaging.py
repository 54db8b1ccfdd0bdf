"""`pip install .`: PyTorch is looked for before anything is fetched or compiled, and what is wrong with it is said."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ROOT / "bindings" / "torch"
HINT = "install PyTorch first (pip install torch), then run this command again"


def installed(site, version, headers=True):
    """Something that looks like an installed torch package in the folder `site`."""
    root = site / "torch"
    (root / "include" / "torch" / "csrc" / "stable").mkdir(parents=True)
    (root / "version.py").write_text(f"from typing import Optional\n__version__ = '{version}'\n")
    if headers:
        (root / "include" / "torch" / "csrc" / "stable" / "library.h").touch()
    return root


def run(code, site, **environment):
    """Runs `code` with the folders of bindings/torch and `site` in place of this Python's packages."""
    prelude = (f"import sys, sysconfig; sys.path[:] = [{str(PARTS)!r}] + [p for p in sys.path if 'packages' not in p]\n"
               f"real = sysconfig.get_path\n"
               f"sysconfig.get_path = lambda *how: real(*how) if len(how) > 1 else {str(site)!r}\n")
    inherited = {name: value for name, value in os.environ.items()
                 if name != "VIRTUAL_ENV" and "CMAKE" not in name and not name.startswith("PYTHON")}
    return subprocess.run([sys.executable, "-S", "-c", prelude + code], capture_output=True, text=True, check=False,
                          env=inherited | environment)


def requires(hook, site, settings=None, **environment):
    return run(f"import build_backend; print(build_backend.{hook}({settings!r}))", site, **environment)


HOOKS = ["get_requires_for_build_wheel", "get_requires_for_build_editable"]


@pytest.mark.parametrize("hook", HOOKS)
def test_p19_without_pytorch_the_first_hook_stops(tmp_path, hook):
    done = requires(hook, tmp_path)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("vsa_torch: expected PyTorch 2.10 or later beside ") and HINT in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("hook", ["prepare_metadata_for_build_wheel", "prepare_metadata_for_build_editable",
                                  "build_wheel", "build_editable"])
def test_p19_without_isolation_the_other_hooks_stop(tmp_path, hook):
    done = run(f"import build_backend; build_backend.{hook}('somewhere')", tmp_path)
    assert done.returncode == 1 and HINT in done.stderr and "Traceback" not in done.stderr
    installed(tmp_path, "2.10.0")
    done = run(f"import build_backend; build_backend.{hook}('somewhere')", tmp_path)
    assert "vsa_torch: expected scikit-build-core 0.10 or later, got none" in done.stderr


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("version", ["2.10.0", "2.10.0+cpu", "2.15.0+cu132", "3.0.1", "2.16.0a0+git1234"])
def test_p19_with_pytorch_the_builder_is_asked_for(tmp_path, hook, version):
    installed(tmp_path, version)
    done = requires(hook, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "scikit-build-core>=0.10" in done.stdout


@pytest.mark.parametrize("version", ["2.9.1+cu128", "1.13.1"])
def test_p19_an_older_pytorch_is_named(tmp_path, version):
    installed(tmp_path, version)
    done = requires(HOOKS[0], tmp_path)
    assert done.returncode == 1 and f"expected PyTorch 2.10 or later, got {version} in {tmp_path}/torch" in done.stderr


def test_p19_a_pytorch_without_headers_is_named(tmp_path):
    installed(tmp_path, "2.11.0", headers=False)
    assert "expected the headers of PyTorch 2.11.0" in requires(HOOKS[0], tmp_path).stderr


@pytest.mark.parametrize("key", ["cmake.define.VSA_TORCH_ROOT", "skbuild.cmake.define.VSA_TORCH_ROOT"])
def test_p19_a_pytorch_that_the_user_names(tmp_path, key):
    root = installed(tmp_path / "elsewhere", "2.11.0")
    assert requires(HOOKS[0], tmp_path, {key: str(root)}).returncode == 0
    done = requires(HOOKS[0], tmp_path, {key: str(tmp_path / "nowhere")})
    assert done.returncode == 1 and f"in {tmp_path}/nowhere, got none" in done.stderr
    assert requires(HOOKS[0], tmp_path, CMAKE_ARGS=f"-DVSA_TORCH_ROOT={root}").returncode == 0


def test_p19_an_isolated_environment_of_uv_finds_the_one_it_builds_for(tmp_path):
    site = tmp_path / "venv" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    installed(site, "2.11.0")
    assert requires(HOOKS[0], tmp_path / "empty").returncode == 1
    done = requires(HOOKS[0], tmp_path / "empty", VIRTUAL_ENV=str(tmp_path / "venv"))
    assert done.returncode == 0, done.stderr


def test_p19_a_machine_without_cmake_gets_it_from_pypi(tmp_path):
    installed(tmp_path, "2.11.0")
    done = requires(HOOKS[0], tmp_path, PATH=str(tmp_path))
    assert "cmake>=3.25" in done.stdout and "'ninja'" in done.stdout


def test_p19_a_source_archive_needs_no_pytorch(tmp_path):
    assert requires("get_requires_for_build_sdist", tmp_path).returncode == 0


def test_p19_cmake_is_told_the_same(tmp_path):
    code = f"import runpy; runpy.run_path({str(PARTS / 'find_torch.py')!r}, run_name='__main__')"
    done = run(code, tmp_path)
    assert done.returncode == 1 and done.stdout == "" and "expected PyTorch 2.10" in done.stderr
    root = installed(tmp_path, "2.11.0")
    assert run(code, tmp_path).stdout == f"{root}\n"


@pytest.mark.parametrize("command", [["install", "."], ["install", "-e", "."], ["wheel", "--wheel-dir", "wheels", "."]])
def test_p19_pip_in_a_fresh_environment_stops_before_it_fetches(tmp_path, command):
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    where = [str(ROOT) if part == "." else part for part in command]
    done = subprocess.run([str(tmp_path / "venv" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", *where,
                           "--no-index"], capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 1
    assert "vsa_torch: expected PyTorch 2.10 or later" in done.stdout + done.stderr
    assert HINT in done.stdout + done.stderr
