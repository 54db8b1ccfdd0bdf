"""bench/gpu/table.py: the tables of a made-up run, and power.py's summary."""

import gzip
import json
import re
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


def section(lines):
    return table.section(*table.read(lines), rows="run.jsonl.gz")


def test_a_section_of_a_made_up_run():
    text = section(map(json.dumps, MADE_UP))
    assert text.startswith("## NVIDIA H200\n") and "Commit abc1234" in text and "driver 580.0" in text
    assert "board power 650 to 650 W, SM clock 1.70 to 1.70 GHz" in text.replace("\n", " ")
    assert "[run.jsonl.gz](run.jsonl.gz)" in text
    # No time of FlashAttention-3, so no column of it; the ratio is to cuDNN.
    assert "`x`: the operator is so many times as fast as cuDNN." in text
    assert "| kept | cuDNN | vsa fine | vsa operator | x |" in text
    assert "| 8x64x64, 4x4x4, 12 x 128 | 12.5 %, random | 10.0 | 1.50 | 2.00 | 5.00 |" in text
    assert "| select | 0.030 |" in text
    assert f"- FastVideo: not installed ({CASE})" in text
    assert "- cases: left out, no time after 400 s (s_t64/kept5/random)" in text


def test_a_speed_up_stands_behind_the_operator():
    text = section(map(json.dumps, [MADE_UP[0], row("dense_flash3", 9.0), *MADE_UP[1:]]))
    assert "`x`: the operator is so many times as fast as FA3." in text
    assert "| 9.00 | 10.0 | 1.50 | 2.00 | 4.50 |" in text


def of(kind, lines):
    """The rows of the case with lists of another kind."""
    return [{**line, "case": CASE.replace("random", kind)} if "case" in line else line for line in lines]


def test_random_and_local_lists_share_a_line():
    local = of("local", [row("dense_cudnn", 10.4), row("fine", 1.2), row("operator", 1.6), MADE_UP[-2]])
    for rows in ([*MADE_UP, *local], [MADE_UP[0], *local, *MADE_UP[1:]]):  # in any order
        text = section(map(json.dumps, rows))
        assert "| 8x64x64, 4x4x4, 12 x 128 | 12.5 % | 10.0, 10.4 | 1.50, 1.20 | 2.00, 1.60 | 5.00, 6.50 |" in text
    without = section(map(json.dumps, [*MADE_UP, *(line for line in local if line.get("what") != "fine")]))
    assert "| 10.0, 10.4 | 1.50, - | 2.00, 1.60 |" in without  # a figure that is missing keeps its place


@pytest.mark.parametrize("reason, words", [
    ({"absent": "No module named 'flash_attn_interface'"}, "not installed"),
    ({"absent": "libfa3.so: no such file"}, "not available, libfa3.so: no such file"),
    ({"failed": "out of memory"}, "failed, out of memory"),
])
def test_what_was_not_measured_is_said_in_words(reason, words):
    rows = [{"case": CASE, "what": f"dense_flash3{passes}", **reason} for passes in ("_backward", "_training")]
    text = section(map(json.dumps, [*MADE_UP, *rows]))
    assert f"- FlashAttention-3, backward: {words} ({CASE})\n" in text
    assert f"- FlashAttention-3, forward and backward: {words} ({CASE})\n" in text


def test_stages_have_the_time_of_their_bytes_beside_them():
    combine = {**row("combine", 0.05), "bytes": 4.24e8}
    text = section(map(json.dumps, [MADE_UP[0], combine, row("pool_qkv", 0.1), *MADE_UP[1:]]))
    assert "| combine | 0.050 (0.100) |" in text and "| select | 0.030 |" in text


BACKWARD = [row("operator_backward", 5.0), row("fine_backward", 4.5), row("dense_flash3_backward", 26.0),
            row("dense_flash3_training", 36.0), row("operator_training", 7.2), row("coarse_backward", 0.1),
            row("gemm", 2.0, 1e12), {"case": CASE, "summary": MADE_UP[-2]["summary"]}]


def test_backward_is_a_table_of_its_own():
    text = section(map(json.dumps, [*MADE_UP, *BACKWARD]))
    forward, backward = text.split("Backward, milliseconds")
    assert "| 10.0 | 1.50 | 2.00 |" in forward
    assert "| FA3 | vsa fine | vsa operator | x | FA3, both | vsa operator, both | x |" in backward
    assert "| 26.0 | 4.50 | 5.00 | 5.20 | 36.0 | 7.20 | 5.00 |" in backward


def test_without_flash_attention_backward_is_compared_with_cudnn():
    others = [row("dense_cudnn_backward", 30.0), row("dense_cudnn_training", 43.2)]
    rows = [*others, *(one for one in BACKWARD if "flash3" not in one.get("what", ""))]
    text = section(map(json.dumps, [MADE_UP[0], row("dense_flash3", 9.0), *MADE_UP[1:], *rows]))
    forward, backward = text.split("Backward, milliseconds")
    assert "as fast as FA3." in forward and "as fast as cuDNN." in backward
    assert "| 30.0 | 4.50 | 5.00 | 6.00 | 43.2 | 7.20 | 6.00 |" in backward


def test_rows_of_another_run_are_refused():
    lines = list(map(json.dumps, MADE_UP))
    with pytest.raises(ValueError, match="expected one row of fine, got two"):
        table.read([*lines, json.dumps(row("fine", 1.0))])
    with pytest.raises(ValueError, match="expected the rows of one run, got a second header"):
        table.read([*lines, json.dumps({"header": {**MADE_UP[0]["header"], "commit": "def5678"}})])


def test_the_page_keeps_what_is_around_the_section_of_a_card(tmp_path):
    run, page = tmp_path / "run.jsonl.gz", tmp_path / "page.md"
    run.write_bytes(gzip.compress("\n".join(map(json.dumps, MADE_UP)).encode()))
    other = "<!-- card NVIDIA H100: written by bench/gpu/table.py -->\nkept\n<!-- end of card -->\n"
    page.write_text(f"before\n{other}after\n")
    for _ in range(2):  # appended, then replaced
        assert table.main([str(run), "--page", str(page)]) == 0
        text = page.read_text()
        assert text.startswith(f"before\n{other}\n<!-- card NVIDIA H200") and text.count("Commit abc1234") == 1
        assert text.endswith(f"{table.END}\nafter\n")
    page.write_text("<!-- card NVIDIA H200: written by bench/gpu/table.py -->\nno end")
    assert table.main([str(run), "--page", str(page)]) == 1


def test_cases_choose_the_lines(tmp_path, capsys):
    run = tmp_path / "run.jsonl"
    run.write_text("\n".join(map(json.dumps, MADE_UP)))
    assert table.main([str(run), "--cases", "kept5/"]) == 0
    assert "random |" not in capsys.readouterr().out
    assert table.main([str(run), "--cases", "nosuch"]) == 1
    assert "--cases: nosuch matches none of s_t64/kept12.5/random, s_t64/kept5/random" in capsys.readouterr().err


def test_the_page_is_what_its_rows_say(tmp_path):
    """Neither docs/performance.md nor the summary in README.md is edited by hand: both are made again from the rows."""
    page = ROOT / "docs/performance.md"
    text = page.read_text()
    runs = re.findall(r"All rows:\s\[[^\]]*\]\(([^)]+)\)", text)
    assert len(runs) == text.count(table.END) > 0
    again = tmp_path / "docs/performance.md"
    again.parent.mkdir()
    again.write_text(text)
    readme = ROOT / "README.md"
    (tmp_path / "README.md").write_text(readme.read_text())
    (tmp_path / "bench").symlink_to(ROOT / "bench")
    for run in runs:
        arguments = ["--page", str(again), "--readme", str(tmp_path / "README.md")]
        assert table.main([str(tmp_path / "docs" / run), *arguments]) == 0
    assert again.read_text() == text
    assert (tmp_path / "README.md").read_text() == readme.read_text()


def test_power_samples_are_summed_up():
    watch = power.Watch()
    watch.lines = ["650.5, 1700, 60, 0x4\n", "[N/A], 1980, 61, 0x0\n", "cut"]
    assert watch.summary() == {"power_w": [650.5, 650.5, 650.5], "sm_mhz": [1700.0, 1840.0, 1980.0],
                               "celsius": [60.0, 60.5, 61.0], "clock_reasons": ["0x0", "0x4"], "samples": 2}
