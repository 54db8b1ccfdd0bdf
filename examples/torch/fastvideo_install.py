"""FastVideo: its attention layer, served by vsa's operator. Run this before a model runs, at the top of your script and
outside of `if __name__ == "__main__"`: FastVideo's workers are processes of their own, which import the script again."""

from vsa_torch.compat import fastvideo

fastvideo.install()  # fastvideo.uninstall() takes it back
