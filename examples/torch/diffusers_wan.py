"""Wan in diffusers: sparse self-attention in all steps but the first."""

from vsa_torch.diffusers import enable_vsa


def generate(pipe, prompt, **options):
    """pipe is a WanPipeline or WanImageToVideoPipeline: WanPipeline.from_pretrained(folder)."""
    report = enable_vsa(pipe, sparsity=0.9, dense_steps=1)
    video = pipe(prompt=prompt, **options).frames[0]
    print(report)
    return video
