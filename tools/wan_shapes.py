"""Names and shapes of Wan2.1's tensors, and how random numbers have to be spread in each so that a model does something.

Each part is a list of Tensor under diffusers' or transformers' name and Wan's own. tests/torch/test_write_wan_folder.py
compares them with the classes of diffusers and transformers.
"""
from __future__ import annotations

import dataclasses

# As --model of write_wan_folder.py names them. "tiny" are those of diffusers' own tests.
TRANSFORMERS = {
    "1.3B": {"num_attention_heads": 12, "ffn_dim": 8960, "num_layers": 30},
    "14B": {"num_attention_heads": 40, "ffn_dim": 13824, "num_layers": 40},
    "tiny": {"num_attention_heads": 2, "attention_head_dim": 12, "ffn_dim": 32, "num_layers": 2, "text_dim": 32,
             "rope_max_seq_len": 32},
}
TRANSFORMER = {
    "patch_size": [1, 2, 2], "attention_head_dim": 128, "in_channels": 16, "out_channels": 16, "text_dim": 4096,
    "freq_dim": 256, "cross_attn_norm": True, "qk_norm": "rms_norm_across_heads", "eps": 1e-6, "image_dim": None,
    "added_kv_proj_dim": None, "rope_max_seq_len": 1024, "pos_embed_seq_len": None,
}
TEXT_ENCODERS = {
    "xxl": {"vocab_size": 256384, "d_model": 4096, "d_kv": 64, "d_ff": 10240, "num_heads": 64, "num_layers": 24},
    "tiny": {"vocab_size": 1024, "d_model": 32, "d_kv": 8, "d_ff": 37, "num_heads": 4, "num_layers": 3},
}
TEXT_ENCODER = {
    "architectures": ["UMT5EncoderModel"], "model_type": "umt5", "feed_forward_proj": "gated-gelu",
    "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128, "layer_norm_epsilon": 1e-6,
    "dropout_rate": 0.1, "pad_token_id": 0, "eos_token_id": 1, "is_encoder_decoder": True, "tie_word_embeddings": False,
}
VAES = {
    "wan": {"base_dim": 96, "dim_mult": [1, 2, 4, 4], "num_res_blocks": 2},
    "tiny": {"base_dim": 3, "dim_mult": [1, 1, 1, 1], "num_res_blocks": 1},
}
VAE = {"z_dim": 16, "attn_scales": [], "temperal_downsample": [False, True, True], "dropout": 0.0}
# Of Wan2.1's latents, by channel.
LATENTS_MEAN = [-0.7571, -0.7089, -0.9113, 0.1075, -0.1745, 0.9653, -0.1517, 1.5508, 0.4134, -0.0715, 0.5517, -0.3632,
                -0.1922, -0.9497, 0.2503, -0.2921]
LATENTS_STD = [2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743, 3.2687, 2.1526, 2.8652, 1.5579, 1.6382,
               1.1253, 2.8251, 1.916]


@dataclasses.dataclass(frozen=True)
class Tensor:
    name: str
    wan: str  # its name in Wan's own files
    shape: tuple[int, ...]
    rms: float | None  # of numbers of either sign around 0; None: a scale, from `least` to 1.25 times that
    least: float = 1.0


def weight(name: str, wan: str, shape: tuple[int, ...], gain: float = 1.0) -> Tensor:
    """Keeps the size of what it is applied to, times the gain: a sum has shape[1:] terms."""
    terms = 1
    for extent in shape[1:]:
        terms *= extent
    return Tensor(name, wan, shape, gain * terms**-0.5)


def layer(name: str, wan: str, shape: tuple[int, ...], gain: float = 1.0) -> list[Tensor]:
    """A weight and its bias."""
    return [weight(f"{name}.weight", f"{wan}.weight", shape, gain),
            Tensor(f"{name}.bias", f"{wan}.bias", shape[:1], 0.1)]


def block(n: int, d: int, ffn: int, gate: str | None) -> list[Tensor]:
    """Half of a block's change comes through its gates, of which the tables are the larger part."""
    at = f"blocks.{n}."
    tensors = [Tensor(f"{at}scale_shift_table", f"{at}modulation", (1, 6, d), 0.5)]
    for attention, wan in (("attn1", "self_attn"), ("attn2", "cross_attn")):
        for part, short in (("to_q", "q"), ("to_k", "k"), ("to_v", "v"), ("to_out.0", "o")):
            # A mean over many tokens is small.
            gain = 2.0 if (attention, short) == ("attn1", "o") else 1.0
            tensors += layer(f"{at}{attention}.{part}", f"{at}{wan}.{short}", (d, d), gain)
        for part in ("norm_q", "norm_k"):
            # Scores of a few units, so that attention chooses.
            least = 2.0 if (attention, part) == ("attn1", "norm_q") else 1.0
            tensors.append(Tensor(f"{at}{attention}.{part}.weight", f"{at}{wan}.{part}.weight", (d,), None, least))
    tensors += [Tensor(f"{at}norm2.weight", f"{at}norm3.weight", (d,), None),
                Tensor(f"{at}norm2.bias", f"{at}norm3.bias", (d,), 0.1)]
    tensors += layer(f"{at}ffn.net.0.proj", f"{at}ffn.0", (ffn, d))
    tensors += layer(f"{at}ffn.net.2", f"{at}ffn.2", (d, ffn), 1.5)
    if gate is not None:  # of means over tiles, which are small
        name = f"{at}{gate}to_gate_compress"
        tensors += layer(name, name, (d, d), 4.0)
    return tensors


def transformer(config: dict, gate: str | None = None) -> list[Tensor]:
    """Gates are called blocks.N.<gate>to_gate_compress; None: there are none."""
    c = {**TRANSFORMER, **config}
    d = c["num_attention_heads"] * c["attention_head_dim"]
    patch = tuple(c["patch_size"])
    embedder = "condition_embedder."
    tensors = [Tensor("scale_shift_table", "head.modulation", (1, 2, d), 0.5)]
    tensors += layer("patch_embedding", "patch_embedding", (d, c["in_channels"], *patch))
    tensors += layer(f"{embedder}time_embedder.linear_1", "time_embedding.0", (d, c["freq_dim"]))
    tensors += layer(f"{embedder}time_embedder.linear_2", "time_embedding.2", (d, d), 2.0)
    tensors += layer(f"{embedder}time_proj", "time_projection.1", (6 * d, d))
    tensors += layer(f"{embedder}text_embedder.linear_1", "text_embedding.0", (d, c["text_dim"]))
    tensors += layer(f"{embedder}text_embedder.linear_2", "text_embedding.2", (d, d), 1.5)
    for n in range(c["num_layers"]):
        tensors += block(n, d, c["ffn_dim"], gate)
    volume = patch[0] * patch[1] * patch[2]
    return tensors + layer("proj_out", "head.head", (volume * c["out_channels"], d))


def text_encoder(config: dict) -> list[Tensor]:
    """umT5. Wan's own file has other names; those of transformers are in all safetensors files."""
    c = {**TEXT_ENCODER, **config}
    d, inner, ff = c["d_model"], c["num_heads"] * c["d_kv"], c["d_ff"]
    tensors = [Tensor("shared.weight", "shared.weight", (c["vocab_size"], d), 1.0)]
    for n in range(c["num_layers"]):
        attention, feed = f"encoder.block.{n}.layer.0.", f"encoder.block.{n}.layer.1."
        # No division by the root of d_kv in the scores: q is as small.
        shapes = {"SelfAttention.q": ((inner, d), c["d_kv"]**-0.5), "SelfAttention.k": ((inner, d), 1.0),
                  "SelfAttention.v": ((inner, d), 1.0), "SelfAttention.o": ((d, inner), 1.0)}
        tensors += [weight(f"{attention}{name}.weight", f"{attention}{name}.weight", shape, gain)
                    for name, (shape, gain) in shapes.items()]
        name = f"{attention}SelfAttention.relative_attention_bias.weight"
        tensors.append(Tensor(name, name, (c["relative_attention_num_buckets"], c["num_heads"]), 1.0))
        tensors.append(Tensor(f"{attention}layer_norm.weight", f"{attention}layer_norm.weight", (d,), None))
        shapes = {"wi_0": ((ff, d), 1.0), "wi_1": ((ff, d), 1.0), "wo": ((d, ff), 1.5)}
        tensors += [weight(f"{feed}DenseReluDense.{name}.weight", f"{feed}DenseReluDense.{name}.weight", shape, gain)
                    for name, (shape, gain) in shapes.items()]
        tensors.append(Tensor(f"{feed}layer_norm.weight", f"{feed}layer_norm.weight", (d,), None))
    return tensors + [Tensor("encoder.final_layer_norm.weight", "encoder.final_layer_norm.weight", (d,), None)]


def resnet(name: str, wan: str, c_in: int, c_out: int) -> list[Tensor]:
    tensors = [Tensor(f"{name}.norm1.gamma", f"{wan}.residual.0.gamma", (c_in, 1, 1, 1), None)]
    tensors += layer(f"{name}.conv1", f"{wan}.residual.2", (c_out, c_in, 3, 3, 3), 1.5)
    tensors.append(Tensor(f"{name}.norm2.gamma", f"{wan}.residual.3.gamma", (c_out, 1, 1, 1), None))
    tensors += layer(f"{name}.conv2", f"{wan}.residual.6", (c_out, c_out, 3, 3, 3), 1.5)
    if c_in != c_out:
        tensors += layer(f"{name}.conv_shortcut", f"{wan}.shortcut", (c_out, c_in, 1, 1, 1))
    return tensors


def middle(part: str, dim: int) -> list[Tensor]:
    tensors = [Tensor(f"{part}.mid_block.attentions.0.norm.gamma", f"{part}.middle.1.norm.gamma", (dim, 1, 1), None)]
    for name, c_out in (("to_qkv", 3 * dim), ("proj", dim)):
        tensors += layer(f"{part}.mid_block.attentions.0.{name}", f"{part}.middle.1.{name}", (c_out, dim, 1, 1))
    for j in (0, 1):
        tensors += resnet(f"{part}.mid_block.resnets.{j}", f"{part}.middle.{2 * j}", dim, dim)
    return tensors


def ends(part: str, c_in: int, first: int, last: int, c_out: int) -> tuple[list[Tensor], list[Tensor]]:
    tail = [Tensor(f"{part}.norm_out.gamma", f"{part}.head.0.gamma", (last, 1, 1, 1), None)]
    tail += layer(f"{part}.conv_out", f"{part}.head.2", (c_out, last, 3, 3, 3))
    return layer(f"{part}.conv_in", f"{part}.conv1", (first, c_in, 3, 3, 3)), tail


def encoder(c: dict) -> list[Tensor]:
    dims = [c["base_dim"] * m for m in (1, *c["dim_mult"])]
    head, tail = ends("encoder", 3, dims[0], dims[-1], 2 * c["z_dim"])
    tensors, at = head, 0
    for i, (dim, out) in enumerate(zip(dims, dims[1:])):
        for j in range(c["num_res_blocks"]):
            tensors += resnet(f"encoder.down_blocks.{at}", f"encoder.downsamples.{at}", out if j else dim, out)
            at += 1
        if i + 2 < len(dims):
            name, wan = f"encoder.down_blocks.{at}", f"encoder.downsamples.{at}"
            tensors += layer(f"{name}.resample.1", f"{wan}.resample.1", (out, out, 3, 3))
            if c["temperal_downsample"][i]:
                tensors += layer(f"{name}.time_conv", f"{wan}.time_conv", (out, out, 3, 1, 1))
            at += 1
    return tensors + middle("encoder", dims[-1]) + tail


def decoder(c: dict) -> list[Tensor]:
    mult = c["dim_mult"][::-1]
    dims = [c["base_dim"] * m for m in (mult[0], *mult)]
    head, tail = ends("decoder", c["z_dim"], dims[0], dims[-1], 3)
    tensors, at = head + middle("decoder", dims[0]), 0
    for i, (dim, out) in enumerate(zip(dims, dims[1:])):
        if i > 0:
            dim //= 2  # the upsampler before it halves the channels
        for j in range(c["num_res_blocks"] + 1):
            tensors += resnet(f"decoder.up_blocks.{i}.resnets.{j}", f"decoder.upsamples.{at}", out if j else dim, out)
            at += 1
        if i + 2 < len(dims):
            name, wan = f"decoder.up_blocks.{i}.upsamplers.0", f"decoder.upsamples.{at}"
            tensors += layer(f"{name}.resample.1", f"{wan}.resample.1", (out // 2, out, 3, 3))
            if c["temperal_downsample"][::-1][i]:
                tensors += layer(f"{name}.time_conv", f"{wan}.time_conv", (2 * out, out, 3, 1, 1))
            at += 1
    return tensors + tail


def vae(config: dict) -> list[Tensor]:
    c = {**VAE, **config}
    z = c["z_dim"]
    middle_convs = layer("quant_conv", "conv1", (2 * z, 2 * z, 1, 1, 1)) + layer(
        "post_quant_conv", "conv2", (z, z, 1, 1, 1))
    return encoder(c) + middle_convs + decoder(c)
