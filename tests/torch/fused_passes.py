"""What the tests of enable_vsa's fused passes share."""

import pytest

from tiny_wan import LAYERS, gate_weights, run
from vsa_torch.diffusers import _passes, enable_vsa

SETTINGS = {"sparse": dict(topk=2), "gates": dict(topk=2, gates=gate_weights()), "dense": dict(sparsity=0.0)}
FUSED = {"residual_norm": 4 * LAYERS, "norm_rope_pool": 2 * LAYERS}  # in a call of the tiny model
NONE = {"residual_norm": 0, "norm_rope_pool": 0}


@pytest.fixture
def used(monkeypatch):
    """used(call): what the call returns, and how often each pass ran in it."""
    counts = dict(NONE)
    _passes._implemented.cache_clear()
    for name, attribute in (("residual_norm", "residual_norm"), ("norm_rope_pool", "_norm_rope_pool")):
        def counted(*args, _name=name, _real=getattr(_passes, attribute), **kwargs):
            if args[0].shape[1] > 1:  # not the question whether there is a pass
                counts[_name] += 1
            return _real(*args, **kwargs)
        monkeypatch.setattr(_passes, attribute, counted)

    def call(function):
        counts.update(NONE)
        out = function()
        return out, dict(counts)

    return call


def own(model, settings=SETTINGS["gates"], **change):
    """The output by diffusers' own operations; leaves the model with the passes switched on."""
    enable_vsa(model, **settings, fused=False)
    out = run(model, **change)
    enable_vsa(model, **{name: value for name, value in settings.items() if name != "gates"})
    return out
