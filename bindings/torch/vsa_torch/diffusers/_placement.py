"""Makes a gate a member of its model: in the dtype the model computes in, on the device it computes on, under the
offloading that its neighbours are under. What cannot be done is refused before anything is changed."""

import torch

_COMPUTE_DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
_BEFORE = "call enable_vsa before"
_SHARDING = ("DistributedDataParallel", "FullyShardedDataParallel", "DeepSpeedEngine")


def attach(name, transformer, block, weights):
    """Gives a block's self-attention a gate, a linear layer with copies of these weights."""
    neighbour = block.attn1.norm_q  # of that attention, and no quantisation packs or renames it
    offload = _accelerate_hook(neighbour)
    device = "cpu" if offload else neighbour.weight.device
    rows, columns = weights["weight"].shape
    with torch.inference_mode(False):  # so that it can be trained later
        gate = torch.nn.Linear(columns, rows, bias="bias" in weights, device="meta").train(transformer.training)
        gate.load_state_dict({part: tensor.to(device=device, dtype=_compute_dtype(transformer), copy=True)
                              for part, tensor in weights.items()}, assign=True)
        gate.requires_grad_(neighbour.weight.requires_grad)
    setattr(block.attn1, name, gate)
    if offload:
        from accelerate.hooks import AlignDevicesHook, add_hook_to_module

        add_hook_to_module(gate, AlignDevicesHook(offload.execution_device, offload=True))
    elif (group := _group(neighbour) or _group(block.attn1.to_out[0])) is not None:
        from diffusers.hooks import apply_group_offloading

        apply_group_offloading(gate, group.onload_device, group.offload_device, "leaf_level",
                               non_blocking=group.non_blocking)


def check_attachable(transformer, wrappers):
    """Raises ValueError where a new gate would not be covered by what was done to the model before."""
    for module in (*wrappers, transformer, *transformer.blocks):
        for kind in type(module).__mro__:
            if kind.__name__ in (*_SHARDING, "FSDPModule"):
                _refuse(f"one that is not yet wrapped by {kind.__name__}", "wrapped", f"{_BEFORE} it is wrapped")
    weight = transformer.blocks[0].attn1.norm_q.weight
    if hasattr(weight, "device_mesh"):
        _refuse("one whose weights are not yet sharded", "sharded weights", f"{_BEFORE} they are sharded")
    for block in transformer.blocks:
        for module in (transformer, block, block.attn1):
            hook = _accelerate_hook(module)
            if hook is not None and hook.place_submodules:
                _refuse("offloading layer by layer", "accelerate's offloading of whole blocks", f"{_BEFORE} it")
            group = _group(module)
            # The group of a block without a stream moves what is in the block at that time; others keep a list.
            if group is not None and module is not transformer:
                _check_group(group)
        for module in (block.attn1.norm_q, block.attn1.to_out[0]):
            if (group := _group(module)) is not None:
                _check_group(group)
        if block.attn1.norm_q.weight.device.type == "meta" and not _accelerate_hook(block.attn1.norm_q):
            _refuse("one that has its weights", "weights on meta", "call enable_vsa after they are loaded")
    dtype = _compute_dtype(transformer)
    if dtype not in _COMPUTE_DTYPES:
        _refuse("one that computes in float32, bfloat16 or float16", str(dtype), "name a compute dtype for it, as "
                "enable_layerwise_casting does")


def check_writable(transformer, layer, gate, weights):
    """Raises ValueError where the weights of an attached gate cannot be written in place."""
    parts = dict(gate.named_parameters())
    if type(gate) is not torch.nn.Linear or set(parts) != {"weight", "bias"} & set(parts):
        why = f"a {type(gate).__module__}.{type(gate).__name__}"
    elif set(parts) != set(weights):
        why = f"one with {' and '.join(parts)}, not {' and '.join(weights)}"
    elif any(hasattr(parameter, "device_mesh") for parameter in parts.values()):
        why = "one with sharded weights"
    elif any(type(parameter) is not torch.nn.Parameter or not parameter.is_floating_point() or
             parameter.device.type == "meta" for parameter in parts.values()):
        why = "one whose weights are packed or elsewhere"
    elif any(group is not None and (group.stream is not None or group.offload_to_disk_path is not None) for group in
             (_group(gate), _group(transformer.blocks[layer].attn1), _group(transformer.blocks[layer]))):
        why = "one whose weights are offloaded to disk or by a stream"
    else:
        return
    raise ValueError(f"[enable_vsa] gates: expected the model's gates to be linear layers whose weights can be "
                     f"written, got {why} in layer {layer}; leave gates out to keep it, or take the gates away first: "
                     "disable_vsa(model, drop_gates=True)")


def _refuse(expected, got, remedy):
    raise ValueError(f"[enable_vsa] model: expected {expected}, so that gates can be added, got {got}; {remedy}")


def _check_group(group):
    if group.stream is not None or group.offload_to_disk_path is not None:
        _refuse("one without group offloading to disk or by a stream", "group offloading", f"{_BEFORE} "
                "enable_group_offload")


def _compute_dtype(transformer):
    """The dtype of what reaches the attention: the patch embedding makes it, which no quantisation packs."""
    embedding = transformer.patch_embedding
    casting = _diffusers_hook(embedding, "layerwise_casting")
    return casting.compute_dtype if casting is not None else embedding.weight.dtype


def _accelerate_hook(module):
    """accelerate's hook that holds the weights of a module while it does not run; None without."""
    hook = getattr(module, "_hf_hook", None)
    for part in getattr(hook, "hooks", (hook,)):
        if getattr(part, "offload", False) is True:
            return part
    return None


def _group(module):
    """The group that diffusers' group offloading moves with a module; None without."""
    hook = _diffusers_hook(module, "group_offloading")
    return None if hook is None else hook.group


def _diffusers_hook(module, name):
    registry = getattr(module, "_diffusers_hook", None)
    return None if registry is None else registry.get_hook(name)
