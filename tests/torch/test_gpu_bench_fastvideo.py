"""bench/gpu/fastvideo_layer.py as a program, on a machine without a GPU."""

import json
import sys

import pytest

from fastvideo_layers import NEWEST, fastvideo_layer, fastvideo_wheel, wheel


def rows(capsys, *arguments):
    status = fastvideo_layer.main(["--device", "cpu", "--repeats", "2", "--fastvideo", str(wheel(NEWEST)), *arguments])
    written = capsys.readouterr()
    return status, [json.loads(line) for line in written.out.splitlines()], written.err


def test_all_ways_are_checked_and_timed(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastvideo_kernel", None)  # absent, also where it is installed
    status, found, table = rows(capsys)
    assert status == 0 and found[0]["header"]["fastvideo"] == NEWEST
    timed = {row["what"]: row for row in found if "median_ms" in row}
    assert set(timed) == {"operator", "dropin_impl", "dropin_layer", "install_impl", "install_layer"}
    assert all(row["relative_error"] < 1e-5 and row["repeats"] == 2 for row in timed.values())
    assert [row["what"] for row in found if "absent" in row] == ["fastvideo"]
    assert "| install_layer |" in table
    assert "fastvideo" not in sys.modules


@pytest.mark.parametrize("wrong", [float("nan"), 2.0])
def test_a_wrong_output_is_not_timed(capsys, monkeypatch, wrong):
    monkeypatch.setattr(fastvideo_layer.compat, "video_sparse_attn", lambda q, *_, **__: q * wrong)
    status, found, _ = rows(capsys)
    assert status == 1
    assert {row["what"] for row in found if "failed" in row} == {"dropin_impl", "dropin_layer"}


def test_no_fastvideo_is_a_mistake_of_the_command_line(capsys, tmp_path):
    with pytest.raises(SystemExit) as stopped:
        fastvideo_layer.main(["--device", "cpu", "--fastvideo", str(tmp_path)])
    assert stopped.value.code == 2
    assert "argument --fastvideo: no package fastvideo in" in capsys.readouterr().err
    assert fastvideo_wheel.BACKEND not in sys.modules
