"""Training on a folder of videos."""
import dataclasses

import numpy as np
import pytest
import torch
from PIL import Image

pytest.importorskip("diffusers")
pytest.importorskip("vsa_torch")
from training.dit import train, videos  # noqa: E402
from training.tests.dit_support import TINY, command  # noqa: E402


@pytest.fixture
def video_folder(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    rng = np.random.default_rng(5)
    for n in range(3):
        frames = [Image.fromarray(rng.integers(0, 256, (48, 96, 3), np.uint8)) for _ in range(18)]
        frames[0].save(folder / f"{n}.gif", save_all=True, append_images=frames[1:])
        (folder / f"{n}.txt").write_text(f"video {n}\n")
    (folder / "stills").mkdir()
    for n in range(17):
        Image.new("RGB", (64, 64), (n, 0, 255)).save(folder / "stills" / f"{n:03d}.png")
    return folder


def test_a_folder_of_videos(video_folder, tmp_path, capsys):
    source = videos.Folder(video_folder, TINY, tmp_path / "cache")
    assert len(source.videos[True]) == 1 and len(source.videos[False]) == 3
    captions, pixels = source.training(8, 5, slice(2, 6), "cpu")
    assert pixels.shape == (4, 3, 16, 64, 64) and pixels.min() >= -1 and pixels.max() <= 1
    assert set(captions) <= {"", "video 0", "video 1", "video 2"}
    again = videos.Folder(video_folder, TINY, tmp_path / "cache").training(8, 5, slice(None), "cpu")
    assert again[0][2:6] == captions and torch.equal(again[1][2:6], pixels)
    assert not torch.equal(source.training(8, 6, slice(2, 6), "cpu")[1], pixels)
    still = videos.decode(video_folder / "stills", 32, 32)
    assert still.shape == (17, 32, 32, 3) and (still[3] == (3, 0, 255)).all()
    assert train.run(command(tmp_path, "--data", str(video_folder)))["final_step"] == 4
    assert "captions" not in capsys.readouterr().err
    (video_folder / "0.txt").write_text("a caption of words that the grammar of the clips has never heard of")
    with pytest.raises(ValueError, match="other settings: data 4 videos"):
        train.run(command(tmp_path, "--data", str(video_folder)))
    assert "1 of 4 captions are not told in full" in capsys.readouterr().err


def test_folders_that_do_not_serve_are_named(video_folder, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="at least 32 frames, got 18"):
        videos.Folder(video_folder, dataclasses.replace(TINY, frames=32), tmp_path / "cache")
    with pytest.raises(ValueError, match="expected a folder of videos, got .*nowhere"):
        videos.Folder(tmp_path / "nowhere", TINY, tmp_path / "cache")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="at least two videos, got 0"):
        videos.Folder(tmp_path / "empty", TINY, tmp_path / "cache")
    (tmp_path / "empty/a.mp4").write_bytes(b"no video")
    monkeypatch.setattr(videos.shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match="the program ffmpeg, which reads a.mp4"):
        videos.Folder(tmp_path / "empty", TINY, tmp_path / "cache")
