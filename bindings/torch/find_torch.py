"""Finds the installed torch package without importing it, for CMake and for the build backend.

Run as a program it prints the folder of a PyTorch that serves, or says on stderr why there is none.
"""

import os
import re
import sys
import sysconfig
from pathlib import Path

LEAST = (2, 10)  # the first with the stable ABI that is compiled against


def places():
    """Where packages of this Python may lie. In pip's isolated build environment site-packages is not on sys.path, but
    sysconfig still knows it; uv's is a virtual environment of its own, and VIRTUAL_ENV names the one it builds for."""
    found = [*sys.path, sysconfig.get_path("platlib"), sysconfig.get_path("purelib")]
    if "VIRTUAL_ENV" in os.environ:
        paths = {"base": os.environ["VIRTUAL_ENV"], "platbase": os.environ["VIRTUAL_ENV"]}
        found += [sysconfig.get_path(name, "venv" if "venv" in sysconfig.get_scheme_names() else None, paths)
                  for name in ("platlib", "purelib")]
    return [Path(place) for place in dict.fromkeys(found)]


def version_of(root):
    """The version of the torch package in the folder `root`, as text; None if that is none."""
    try:
        text = (root / "version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r"""__version__\s*=\s*['"]([^'"]+)""", text)
    return found and found.group(1)


def problem(root):
    """Why the torch package in the folder `root` does not serve; None if it does."""
    wanted = f"PyTorch {LEAST[0]}.{LEAST[1]} or later"
    version = version_of(root)
    if version is None:
        return f"expected {wanted} in {root}, got none"
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < LEAST:
        return f"expected {wanted}, got {version} in {root}"
    if not (root / "include" / "torch" / "csrc" / "stable" / "library.h").exists():
        return f"expected the headers of PyTorch {version} in {root}/include, got none"
    return None


def find():
    """(folder of a PyTorch that serves, None), or (None, what is wrong)."""
    roots = [place / "torch" for place in places() if version_of(place / "torch") is not None]
    for root in roots:
        if problem(root) is None:
            return root, None
    if roots:
        return None, problem(roots[0])
    return None, f"expected PyTorch {LEAST[0]}.{LEAST[1]} or later beside {sys.executable}, got none"


if __name__ == "__main__":
    folder, wrong = find()
    if folder is None:
        sys.exit(wrong)
    print(folder)
