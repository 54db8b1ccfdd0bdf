"""bench/gpu/table.py: the tables of a made-up run, and power.py's summary."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/gpu"))

import power  # noqa: E402
import table  # noqa: E402

CASE = "s_t64/kept12.5/random"


def row(what, ms, flops=None, l2_bytes=None):
    return {"case": CASE, "what": what, "median_ms": ms, "iqr_ms": 0.01, "min_ms": ms, "repeats": 24,
            "relative_error": 0.002, "flops": flops, "l2_bytes": l2_bytes, "workspace_mb": 1.0}


MADE_UP = [
    {"header": {"commit": "abc1234", "card": "NVIDIA H200", "driver": "580.0", "repeats": 24, "sets": 3}},
    {"case": CASE, "what": "fastvideo", "absent": "No module named 'fastvideo_kernel'"},
    row("gemm", 1.0, 1e12), row("dense_cudnn", 10.0, 6e12, 2e9), row("fine", 1.5, 0.75e12, 8.77e9),
    row("operator", 2.0, 0.75e12, 8.77e9), row("select", 0.03),
    {"case": CASE, "summary": {"grid": [8, 64, 64], "tile": [4, 4, 4], "heads": 12, "head_dim": 128, "topk": 64,
                               "num_tiles": 512, "shared": 0.125, "power_w": [600.0, 650.0, 690.0],
                               "sm_mhz": [1600.0, 1700.0, 1980.0]}},
    {"case": "s_t64/kept5/random", "left_out": "no time after 400 s"},
]


def test_tables_of_a_made_up_run():
    text = table.tables(*table.read(map(json.dumps, MADE_UP)))
    assert "| commit | abc1234 |" in text and "| card | NVIDIA H200 |" in text and "| driver | 580.0 |" in text
    # 0.75e12 in 1.5 ms; 10 / 1.5; 0.75e12 at 1e15 a second; 8.77e9 bytes at 8.77e12 a second.
    assert "| kept12.5, random | fine stage | 1.500 (0.010) | 500 | 6.67 | 0.750 | 8.77 GB, 1.000 | 2.0e-03 |" in text
    assert "| kept12.5, random | dense, cuDNN | 10.000 (0.010) | 600 | 1.00 | 6.000 |" in text
    assert "| 0.030 (0.010) | 0.500 | 1.000 (0.010) | 0.12 | 600 / 650 / 690 | 1600 / 1700 / 1980 |" in text
    assert "- fastvideo absent: No module named 'fastvideo_kernel' (kept12.5/random)" in text
    assert "- case left out: no time after 400 s (kept5/random)" in text


def test_stages_have_the_time_of_their_bytes_beside_them():
    combine = {**row("combine", 0.05), "bytes": 4.24e8}
    text = table.tables(*table.read(map(json.dumps, [MADE_UP[0], combine, *MADE_UP[1:]])))
    assert "| select | combine |" in text
    assert "| 0.030 (0.010) | 0.050 (0.010), bytes 0.100 |" in text


def test_two_passes_of_a_case_keep_their_product_and_power():
    backward = [{**row("operator_backward", 5.0, 1.875e12)}, {**row("fine_backward", 4.5, 1.875e12)},
                {**row("coarse_backward", 0.1)}, row("gemm", 2.0, 1e12),
                {"case": CASE, "summary": {**MADE_UP[-2]["summary"], "power_w": [500.0, 510.0, 520.0]}}]
    lines = list(map(json.dumps, [*MADE_UP, *backward]))
    text = table.tables(*table.read(lines))
    assert "| kept12.5, random | fine stage | 1.500 (0.010) | 500 | 6.67 | 0.750 |" in text
    assert "| 0.030 (0.010) | 0.500 | 1.000 (0.010) | 0.12 | 600 / 650 / 690 |" in text
    assert "| kept12.5, random | fine stage | 4.500 (0.010) | 417 |  | 3.750 |" in text
    assert "| 0.100 (0.010) | 0.500 | 2.000 (0.010) | 0.12 | 500 / 510 / 520 |" in text
    with pytest.raises(ValueError, match="expected one row of fine, got two"):
        table.read([*lines, json.dumps(row("fine", 1.0))])


def test_the_page_keeps_what_is_around_its_tables(tmp_path):
    run, page = tmp_path / "run.jsonl", tmp_path / "page.md"
    run.write_text("\n".join(map(json.dumps, MADE_UP)))
    page.write_text(f"before\n{table.BEGIN}\nstale figures\n{table.END}\nafter\n")
    for _ in range(2):
        assert table.main([str(run), "--page", str(page)]) == 0
        text = page.read_text()
        assert text.startswith("before\n") and text.endswith("\nafter\n")
        assert "stale figures" not in text and text.count("| commit | abc1234 |") == 1
    assert table.put_into((ROOT / "docs/performance.md").read_text(), "x")
    page.write_text("no markers")
    assert table.main([str(run), "--page", str(page)]) == 1


def test_power_samples_are_summed_up():
    watch = power.Watch()
    watch.lines = ["650.5, 1700, 60, 0x4\n", "[N/A], 1980, 61, 0x0\n", "cut"]
    assert watch.summary() == {"power_w": [650.5, 650.5, 650.5], "sm_mhz": [1700.0, 1840.0, 1980.0],
                               "celsius": [60.0, 60.5, 61.0], "clock_reasons": ["0x0", "0x4"], "samples": 2}
