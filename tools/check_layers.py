#!/usr/bin/env python3
"""Fails if a file includes what its layer must not see.

Dependencies point one way: cli, tests, examples -> runtime -> include/vsa, and behind it
src/api -> src/{reference,cpu,cuda} -> src/core -> include/vsa. The public headers see the standard
library and each other only.
"""

import re
import subprocess
import sys
from pathlib import Path

# The layers each layer may include, itself and include/vsa aside. Order matters: the first prefix
# that fits a path is its layer.
ALLOWED = {
    "include/vsa/": set(),
    "src/core/": set(),
    "src/reference/": {"src/core/"},
    "src/cpu/": {"src/core/"},
    "src/cuda/": {"src/core/"},
    "src/api/": {"src/core/", "src/reference/", "src/cpu/", "src/cuda/"},
    "runtime/": set(),
    "cli/common/": {"runtime/"},  # ahead of cli/: no subcommand may leak into what all of them use
    "cli/": {"runtime/", "cli/common/"},
    "examples/": {"runtime/"},
    "bindings/torch/": set(),
    # Unit tests mirror the tree, so tests may look into every layer.
    "tests/": {"src/core/", "src/reference/", "src/cpu/", "src/cuda/", "src/api/", "runtime/",
               "cli/common/", "cli/"},
}
# Third-party headers that only these layers may see: whoever uses libvsa never meets them.
THIRD_PARTY = {
    "hwy/": {"src/cpu/", "runtime/nn/", "tests/"},
    "oneapi/": {"runtime/", "cli/", "tests/"},
    "dnnl": {"runtime/", "cli/"},
    "CLI/": {"cli/", "tests/"},
    "nlohmann/": {"runtime/", "cli/", "tests/"},
    "libav": {"runtime/", "tests/"},
    "libsw": {"runtime/", "tests/"},
    "stb_": {"runtime/", "tests/"},
    "sentencepiece": {"runtime/"},
    "fmt/": {"src/core/", "src/reference/", "src/cpu/", "src/cuda/", "src/api/", "runtime/", "cli/",
             "tests/"},
    "cuda": {"src/cuda/", "tests/"},
    "cublas": {"src/cuda/"},
    "cudnn": {"src/cuda/"},
    "nccl": {"src/cuda/"},
    "torch/": {"bindings/torch/"},
}
SOURCES = ("*.h", "*.cc", "*.cu", "*.cuh")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def layer_of(path):
    return next((layer for layer in ALLOWED if path.startswith(layer)), None)


def resolve(name, quote, exists):
    """The repository path an include means, or None for one from outside."""
    if quote == '"' and exists("include/" + name):
        return "include/" + name
    return name if exists(name) else None


def wrong_edges(files):
    """files: path -> text. Returns one line for each include that breaks the rule."""
    wrong = []
    for path, text in files.items():
        layer = layer_of(path)
        if layer is None:
            wrong.append(f"{path}: in no layer that tools/check_layers.py knows")
            continue
        for match in INCLUDE.finditer(text):
            quote, name = match.groups()
            line = text.count("\n", 0, match.start(2)) + 1
            target = resolve(name, quote, files.__contains__)
            if target is None:
                if quote == '"' and (layer_of(name) or name.startswith("vsa/")):
                    wrong.append(f"{path}:{line}: includes {name}, which is not in the tree")
                for prefix, layers in THIRD_PARTY.items():
                    if name.startswith(prefix) and not path.startswith(tuple(layers)):
                        wrong.append(f"{path}:{line}: {layer} must not see <{name}>")
                continue
            seen = layer_of(target)
            if seen not in ALLOWED[layer] | {layer, "include/vsa/"}:
                wrong.append(f"{path}:{line}: {layer} must not include {target} ({seen})")
    return wrong


def self_test():
    """The check itself must be able to fail: wrong edges are found, right ones are not."""
    right = {
        "include/vsa/a.h": "#include <vector>\n",
        "src/core/b.h": '#include "vsa/a.h"\n',
        "src/cpu/c.cc": '#include "src/core/b.h"\n#include <hwy/highway.h>\n',
        "src/api/d.cc": '#include "src/core/b.h"\n',
        "runtime/e.h": '#include "vsa/a.h"\n',
        "cli/common/f.h": '#include "runtime/e.h"\n#include <CLI/CLI.hpp>\n',
        "cli/plan/f.cc": '#include "runtime/e.h"\n#include "cli/common/f.h"\n',
        "src/cuda/h.cu": '#include "src/core/b.h"\n#include <cuda_bf16.h>\n',
    }
    assert wrong_edges(right) == [], wrong_edges(right)
    for path, text in {
        "include/vsa/a.h": '#include "src/core/b.h"\n',
        "src/core/b.h": '#  include "src/api/d.cc"\n',
        "src/cpu/c.cc": '// why\n#include "src/api/d.cc"\n',
        "runtime/e.h": '#include "src/core/b.h"\n',
        "runtime/e.cc": '#include <hwy/highway.h>\n',
        "cli/plan/f.cc": "#include <stb_image_write.h>\n",
        "src/cuda/h.cu": '#include "src/cpu/c.cc"\n',
        "runtime/i.cuh": "#include <cuda_runtime.h>\n",
        "cli/common/i.cc": "#include <cuda_runtime.h>\n",
        "src/api/d.cc": '#include "src/core/gone.h"\n',
        "cli/common/f.cc": '#include "cli/plan/f.cc"\n',
        "elsewhere/g.cc": "",
    }.items():
        assert len(wrong_edges(right | {path: text})) == 1, path


def main():
    self_test()
    listed = subprocess.run(["git", "ls-files", *SOURCES], check=True, capture_output=True,
                            text=True).stdout.split()
    wrong = wrong_edges({path: Path(path).read_text() for path in listed if Path(path).exists()})
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
