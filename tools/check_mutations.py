#!/usr/bin/env python3
"""Fails if a mutation of tools/mutations*.py no longer fits the source: `old` must be there once."""

import sys
from pathlib import Path

from mutations import MUTATIONS
from mutations_device import DEVICE_MUTATIONS
from mutations_gpu import GPU_MUTATIONS
from mutations_norm import NORM_MUTATIONS
from mutations_video import VIDEO_MUTATIONS


def main():
    wrong = 0
    for m in MUTATIONS + NORM_MUTATIONS + VIDEO_MUTATIONS + DEVICE_MUTATIONS + GPU_MUTATIONS:
        count = Path(m.file).read_text().count(m.old) if Path(m.file).is_file() else 0
        if count != 1:
            print(f"tools/mutations*.py: {m.name}: expected its text once in {m.file}, got it {count} "
                  "times", file=sys.stderr)
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
