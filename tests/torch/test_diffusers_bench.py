"""bench/gpu/diffusers_forward.py on a machine without a GPU."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("diffusers")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench/gpu"))

import diffusers_forward  # noqa: E402

TINY = ["--model", "tiny", "--grid", "4x6x5", "--device", "cpu", "--rounds", "2", "--sparsity", "0.5"]


def test_every_eager_contestant_runs_and_is_compared(capsys):
    diffusers_forward.main(TINY)
    rows = {row["contestant"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert list(rows) == [name for name in diffusers_forward.CONTESTANTS if "compiled" not in name]
    for name, row in rows.items():
        assert row["finite"] and row["ms"] > 0 and row["grid"] == [4, 6, 5]
        # bf16 rounds some 2^-8 of every intermediate tensor, and the residual of two layers keeps it.
        assert row["relative_l2"] < 0.03 and (row["relative_l2"] == 0 or "fused" in name)
    assert rows["vsa, fused passes"]["relative_l2"] > 0


def test_contestants_are_chosen_by_name(capsys):
    diffusers_forward.main([*TINY, "--contestants", "^vsa, fused passes$"])
    row, = map(json.loads, capsys.readouterr().out.splitlines())
    assert row["relative_l2"] is None  # there is nothing to compare with
    with pytest.raises(SystemExit):
        diffusers_forward.main([*TINY, "--contestants", "none"])
    assert "matches none of dense" in capsys.readouterr().err
