"""The picture of the training's losses."""
import json

from PIL import Image
from training import plots


def log_at(path, entries):
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def test_losses_by_sparsity_in_both_kinds_of_log(tmp_path):
    at = {"16x64x64": {"0.0": 0.5, "0.75": 0.9}, "16x128x128": {"0.75": 0.7}}
    mixed = [{"step": 20, "loss": 0.7, "loss_at": at}]
    own = [{"settings": {}}, {"step": 20, "loss": 0.5, "sparsity": 0.75}, {"final_step": 20, "sparsity": 0.75}]
    assert plots.loss_curves(log_at(tmp_path / "a", mixed)) == {0.0: [(20, 0.5)], 0.75: [(20, 0.9)]}
    one = [{"step": 20, "loss": 0.7, "loss_at_sparsity": {"0.5": 0.5}}]
    assert plots.loss_curves(log_at(tmp_path / "c", one)) == {0.5: [(20, 0.5)]}
    assert plots.loss_curves(f"{tmp_path}/a@16x128x128") == {0.75: [(20, 0.7)]}
    assert plots.loss_curves(log_at(tmp_path / "b", own)) == {0.75: [(20, 0.5)]}


def test_panels_are_in_a_square(tmp_path):
    log = log_at(tmp_path / "log", [{"step": n, "loss": 1 / n, "sparsity": 0.5} for n in range(1, 30)])
    for count, size in ((1, (600, 400)), (2, (1200, 400)), (3, (1200, 800)), (4, (1200, 800))):
        plots.plot_losses({str(n): log for n in range(count)}, tmp_path / "loss.png")
        assert Image.open(tmp_path / "loss.png").size == size
