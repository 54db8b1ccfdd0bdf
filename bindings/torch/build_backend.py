"""The build backend of vsa_torch: scikit-build-core, behind a look for PyTorch before anything is fetched or compiled.

The operators are compiled against the PyTorch that is installed. Without this look, pip would first fetch PyTorch as
a dependency (3 GB), without installing it, and then stop because there is none.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import find_torch

_CMAKE = (3, 25)


def _named_by_user(config_settings):
    """The folder that the user named as VSA_TORCH_ROOT, None if there is none; "" where only CMake can tell."""
    for key, value in (config_settings or {}).items():
        if key.removeprefix("skbuild.") == "cmake.define.VSA_TORCH_ROOT":
            return value
    elsewhere = [os.environ.get(name, "") for name in ("CMAKE_ARGS", "SKBUILD_CMAKE_ARGS", "SKBUILD_CMAKE_DEFINE")]
    return "" if any("VSA_TORCH_ROOT" in text for text in elsewhere) else None


def _look_for_torch(config_settings):
    named = _named_by_user(config_settings)
    if named == "":
        return
    if named is None:
        wrong = find_torch.find()[1]
    else:
        wrong = find_torch.problem(Path(named))
    if wrong is not None:
        raise SystemExit(f"vsa_torch: {wrong}.\n"
                         "vsa_torch: install PyTorch first (pip install torch), then run this command again; a PyTorch in "
                         "another place is named by -C cmake.define.VSA_TORCH_ROOT=.../site-packages/torch")


def _needs_cmake():
    """Whether the machine's CMake is missing or too old; PyPI has one, too."""
    if shutil.which("cmake") is None:
        return True
    said = subprocess.run(["cmake", "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"(\d+)\.(\d+)", said)
    return found is None or tuple(map(int, found.groups())) < _CMAKE


def _requires(config_settings):
    _look_for_torch(config_settings)
    wanted = ["scikit-build-core>=0.10"]
    if _needs_cmake():
        wanted.append(f"cmake>={_CMAKE[0]}.{_CMAKE[1]}")
    if shutil.which("ninja") is None and shutil.which("make") is None:
        wanted.append("ninja")
    return wanted


def _backend():
    try:
        from scikit_build_core import build
    except ImportError:
        raise SystemExit("vsa_torch: expected scikit-build-core 0.10 or later, got none; without build isolation install "
                         "it first (pip install scikit-build-core)") from None
    return build


# --- the hooks of PEP 517 and PEP 660 --------------------------------------------------------------


def get_requires_for_build_wheel(config_settings=None):
    return _requires(config_settings)


def get_requires_for_build_editable(config_settings=None):
    return _requires(config_settings)


def get_requires_for_build_sdist(config_settings=None):
    return ["scikit-build-core>=0.10"]


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    _look_for_torch(config_settings)
    return _backend().prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def prepare_metadata_for_build_editable(metadata_directory, config_settings=None):
    _look_for_torch(config_settings)
    return _backend().prepare_metadata_for_build_editable(metadata_directory, config_settings)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _look_for_torch(config_settings)
    return _backend().build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    _look_for_torch(config_settings)
    return _backend().build_editable(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    return _backend().build_sdist(sdist_directory, config_settings)
