"""bench/gpu/contestants.py and tools/bench_gpu.sh as programs, on a machine without a GPU."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/gpu"))

import contestants  # noqa: E402
import problem  # noqa: E402
import table  # noqa: E402


@pytest.fixture
def library():
    path = os.environ.get("VSA_LIBRARY")
    if not path:
        pytest.skip("VSA_LIBRARY does not name libvsa.so")
    return path


def test_the_program_writes_rows_that_become_tables(library, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastvideo_kernel", None)  # absent, also where it is installed
    status = contestants.main(["--library", library, "--backend", "cpu", "--cases", "kept50/random",
                               "--others", "gemm|dense|fastvideo", "--repeats", "2"])
    assert status == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [json.loads(line) for line in lines]
    assert "header" in rows[0]
    assert {r["what"] for r in rows if "absent" in r} >= {"fastvideo"}
    assert all(r["repeats"] == 2 for r in rows if "median_ms" in r)
    text = table.section(*table.read(lines), rows="run.jsonl")
    assert "| 5x6x7, 2x2x2, 2 x 16 | 50 %, random |" in text and "| vsa operator |" in text
    assert "- FastVideo: not available, import of fastvideo_kernel halted" in text


def test_both_passes_become_tables_of_one_run(library, capsys):
    assert contestants.main(["--library", library, "--backend", "cpu", "--page", "--sets", "1", "--repeats", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    forward, backward = table.section(*table.read(lines), rows="run.jsonl").split("Backward, milliseconds")
    assert "| 12.5 % |" in forward and "| 50 % |" not in forward
    assert "| 12.5 % |" in backward and "| vsa operator, both |" in backward
    assert "flex_attention" not in "".join(lines)


def test_none_of_the_others_can_be_asked_for(library, capsys):
    assert contestants.main(["--library", library, "--backend", "cpu", "--cases", "kept50/random", "--others", "^$",
                             "--repeats", "1"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {r["what"] for r in rows if "what" in r} == {"operator", "operator_list", "fine", "pool_qkv", "coarse",
                                                        "select", "combine", "tile", "untile", "norm_rope_pool"}


def refusal(capsys, *options):
    """The one line that contestants.py ends with."""
    with pytest.raises(SystemExit) as ended:
        contestants.main(["--backend", "cpu", *options])
    assert ended.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    return captured.err


@pytest.mark.parametrize("option, value, expected", [
    ("--cases", "[", "invalid regular expression '[': "), ("--others", "(", "invalid regular expression '(': "),
    ("--sets", "0", "expected a positive integer, got 0"), ("--repeats", "0", "expected a positive integer, got 0"),
    ("--sets", "-1", "expected a positive integer, got -1"), ("--repeats", "2.5", "expected a positive integer, got 2.5"),
    ("--budget-s", "0", "expected a positive number of seconds, got 0"),
    ("--budget-s", "nan", "expected a positive number of seconds, got nan"),
    ("--budget-s", "soon", "expected a positive number of seconds, got soon"),
    ("--passes", "sideways", "invalid choice: 'sideways'"), ("--backend", "tpu", "invalid choice: 'tpu'"),
])
def test_a_wrong_option_is_named_with_what_was_expected(capsys, option, value, expected):
    assert refusal(capsys, option, value).startswith(f"contestants.py: error: argument {option}: {expected}")


def test_a_pattern_that_matches_nothing_is_answered_with_the_names(capsys):
    assert refusal(capsys, "--cases", "nosuch") == (
        "contestants.py: error: argument --cases: 'nosuch' matches none of "
        + ", ".join(case.name for case in problem.TINY_CASES) + "\n")
    assert "argument --cases: '^$' matches none of tiny" in refusal(capsys, "--cases", "^$")
    assert refusal(capsys, "--others", "nosuch").endswith(
        "'nosuch' matches none of gemm, dense_cudnn, dense_flash3, flex_attention, fastvideo\n")
    assert "matches none of dense_cudnn_backward, " in refusal(capsys, "--passes", "backward", "--others", "fastvideo")


def test_a_library_that_is_missing_or_another_one_is_named(capsys, tmp_path):
    expected = "contestants.py: error: argument --library: expected libvsa with the backend cpu, got "
    missing, text = tmp_path / "nosuch.so", tmp_path / "text.so"
    text.write_text("no library")
    assert refusal(capsys, "--library", str(missing)).startswith(f"{expected}{missing}: ")
    assert refusal(capsys, "--library", str(text)).startswith(f"{expected}{text}: ")
    assert "undefined symbol: vsa_" in refusal(capsys, "--library", torch._C.__file__)  # a library, not this one


# --- tools/bench_gpu.sh ----------------------------------------------------------------------------

SEES_GPU, NO_GPU = "echo 'GPU 0: NVIDIA H200 (UUID: GPU-0)'", "echo 'No devices were found'; exit 6"
TORCH = """case $1 in
  *contestants.py) echo "$@"; exit ${WRONG:-0} ;;
  *table.py) shift; echo tables of "$@" ;;
esac"""


@pytest.fixture
def bench(tmp_path):
    """bench(python, nvidia_smi, **environment) runs a copy of the script among stand-ins for what it calls."""
    def program(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    def run(python, nvidia_smi, **environment):
        program("bin/nvcc", "")
        program("tools/install_deps.sh", "")
        shutil.copy(ROOT / "tools/bench_gpu.sh", tmp_path / "tools")
        program("bin/cmake", f"echo >> {tmp_path}/built")
        program("bin/nvidia-smi", nvidia_smi)
        program("build/cli/vsa", 'case "$*" in *--list*) printf "%s\\n" wan-a wan-b cube ;; *) echo alone "$@" ;; esac')
        found = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "PYTHON": program("bin/python", python), **environment}
        return subprocess.run([tmp_path / "tools/bench_gpu.sh"], env=found, capture_output=True, text=True, check=False)

    run.out, run.built = tmp_path / "out", tmp_path / "built"
    return run


@pytest.mark.parametrize("python, nvidia_smi, environment, status, expected", [
    ("exit 1", NO_GPU, {}, 3, "expected an NVIDIA GPU, found none"),
    ("exit 1", "exit 9", {"PASSES": "backward"}, 3, "expected an NVIDIA GPU, found none"),
    ("exit 1", SEES_GPU, {"PASSES": "backward"}, 3, "PASSES=backward needs a PyTorch that sees the GPU"),
    (TORCH, SEES_GPU, {"PASSES": "sideways"}, 2, "PASSES: expected forward, backward or both, got sideways"),
])
def test_what_is_missing_is_one_line_before_anything_is_built(bench, python, nvidia_smi, environment, status, expected):
    done = bench(python, nvidia_smi, **environment)
    assert done.returncode == status
    assert done.stderr.startswith(f"bench-gpu: error: {expected}") and done.stderr.count("\n") == 1
    assert not bench.built.exists() and not bench.out.exists()


def test_with_pytorch_there_are_rows_and_tables_also_of_a_run_with_failures(bench):
    done = bench(TORCH, NO_GPU, PASSES="backward", CASES="wan", WRONG="1")  # PyTorch is enough to know of the GPU
    rows = "bench/gpu/contestants.py --page --cases wan --passes backward --repeats 24\n"
    assert done.returncode == 1 and bench.built.exists()
    assert (bench.out / "bench-gpu.jsonl").read_text() == rows
    assert gzip.decompress((bench.out / "bench-gpu.jsonl.gz").read_bytes()).decode() == rows
    tables = "tables of out/bench-gpu.jsonl.gz --cases wan\n"
    assert (bench.out / "bench-gpu.md").read_text() == tables
    assert done.stdout == f"{tables}out/bench-gpu.jsonl, out/bench-gpu.jsonl.gz, out/bench-gpu.md\n"


def test_without_pytorch_there_are_rows_alone_and_no_tables_of_another_run(bench):
    bench(TORCH, SEES_GPU)
    done = bench("exit 1", SEES_GPU, CASES="wan", REPEATS="5")
    assert done.returncode == 0 and "this library alone" in done.stderr
    assert done.stdout == "out/bench-gpu.jsonl\n"
    assert [path.name for path in bench.out.iterdir()] == ["bench-gpu.jsonl"]
    assert (bench.out / "bench-gpu.jsonl").read_text() == (
        "alone bench --backend cuda --cases bench/gpu.txt --case wan-a --case wan-b --repeats 5 --json\n")
    assert "CASES: expected a regular expression that a case" in bench("exit 1", SEES_GPU, CASES="nosuch").stderr


def test_a_run_without_rows_makes_no_tables(bench):
    done = bench('case $1 in *contestants.py) echo "contestants.py: error: no case" >&2; exit 2 ;; esac', SEES_GPU)
    assert done.returncode == 2
    assert done.stdout == "" and done.stderr == "contestants.py: error: no case\n"
