"""Prints the folder of the installed torch package, without importing it; nothing if there is none.

In pip's isolated build environment site-packages is not on sys.path, but sysconfig still knows it.
"""

import sys
import sysconfig
from pathlib import Path

places = [*sys.path, sysconfig.get_path("platlib"), sysconfig.get_path("purelib")]
for place in places:
    root = Path(place) / "torch"
    if (root / "include" / "torch" / "csrc" / "stable" / "library.h").exists():
        print(root)
        break
