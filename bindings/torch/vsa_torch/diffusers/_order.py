"""A model that computes its tokens in the order of a curve.

All between the patch embedding and the output computes token by token, but for self-attention, which is given its
tiles. So the tokens are brought into tile order once in a call, where they are embedded, together with the rotary
embedding, and the output is brought back. Tiles are runs of consecutive tokens then, which every backend reads at full
speed, and nothing is gathered in the layers.
"""

import functools

import torch

from vsa_torch.tiling import tokens_in_order


def install(transformer, tile_shape, order):
    """The hooks of an order; none for raster order, in which cuboids are read at full speed."""
    if order == "raster":
        return ()
    how = tile_shape, order
    return (transformer.register_forward_pre_hook(_check, with_kwargs=True),
            transformer.patch_embedding.register_forward_hook(functools.partial(_after_embedding, how)),
            transformer.register_forward_hook(functools.partial(_after_transformer, how), with_kwargs=True))


def of_rows(tables, grid, tile_shape, order):
    """Tables [1, S, ...] of the tokens in raster order, as the model has its tokens."""
    return tuple([table.index_select(1, _on(table.device, grid, tile_shape, order)) for table in tables])


def _check(transformer, args, kwargs):
    timestep = kwargs.get("timestep", args[1] if len(args) > 1 else None)
    if isinstance(timestep, torch.Tensor) and timestep.dim() > 1:
        raise NotImplementedError("[enable_vsa] order: expected raster for a timestep of each token, got another order")


def _after_embedding(how, embedding, args, patches):
    """patches [B, C, F, H, W], of which the transformer flattens the last three."""
    tokens = _on(patches.device, tuple(patches.shape[2:]), *how)
    return patches.flatten(2).index_select(2, tokens).view_as(patches)


def _after_transformer(how, transformer, args, kwargs, output):
    """The output, whose patches are in the order of the tokens, with its patches in place."""
    sample = output[0]
    batch, channels, *extents = sample.shape
    (pf, ph, pw), (f, h, w) = transformer.config.patch_size, extents
    grid = f // pf, h // ph, w // pw
    patches = sample.reshape(batch, channels, grid[0], pf, grid[1], ph, grid[2], pw).permute(0, 2, 4, 6, 1, 3, 5, 7)
    patches = patches.flatten(1, 3)
    placed = torch.empty_like(patches).index_copy(1, _on(sample.device, grid, *how), patches)
    placed = placed.unflatten(1, grid).permute(0, 4, 1, 5, 2, 6, 3, 7).reshape(sample.shape)
    if isinstance(output, tuple):
        return (placed, *output[1:])
    return type(output)(sample=placed)


@torch.compiler.assume_constant_result
def _on(device, grid, tile_shape, order):
    return _cached(device, grid, tile_shape, order)


@functools.lru_cache(maxsize=16)
def _cached(device, grid, tile_shape, order):
    with torch.inference_mode(False):  # so that autograd may keep the indices
        return tokens_in_order(grid, tile_shape, order).to(device)
