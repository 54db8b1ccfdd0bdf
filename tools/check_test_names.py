#!/usr/bin/env python3
"""Every test that docs/reference/testing.md names must exist: `Suite.Name`, with * for what may vary."""

import fnmatch
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = "docs/reference/testing.md"
DECLARED = re.compile(r"\b(?:TEST|TEST_F|TEST_P|RC_GTEST_PROP)\((\w+),\s*(\w+)")
NAMED = re.compile(r"`([A-Z]\w+\.\w+\*?)`")


def main():
    tests = set()
    for path in (ROOT / "tests").rglob("*.cc"):
        tests |= {".".join(match) for match in DECLARED.findall(path.read_text())}
    missing = [name for name in NAMED.findall((ROOT / PAGE).read_text())
               if not fnmatch.filter(tests, name)]
    for name in missing:
        print(f"{PAGE}: no test is named {name}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
