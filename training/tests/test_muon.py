"""Muon on stacks against PyTorch's own, one matrix at a time."""
import copy

import pytest
import torch
from torch import nn

from training import muon
from training.text_encoder import UMT5Config, UMT5Encoder


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(24, 40), nn.GELU(), nn.Linear(40, 40), nn.GELU(), nn.Linear(40, 40), nn.Linear(40, 12))


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this PyTorch has no Muon")
def test_it_takes_the_steps_of_pytorchs():
    ours, theirs = network(), network()
    options = {"lr": 1e-2, "weight_decay": 0.1}
    pairs = [(ours, muon.Muon(muon.matrices([ours]), **options)),
             (theirs, torch.optim.Muon(muon.matrices([theirs]), adjust_lr_fn="match_rms_adamw", **options))]
    for step in range(4):
        x = torch.randn(32, 24, generator=torch.Generator().manual_seed(step))
        for net, optimizer in pairs:
            net.zero_grad()
            net(x).square().mean().backward()
            optimizer.step()
    before = network()
    for p, q, start in zip(muon.matrices([ours]), muon.matrices([theirs]), muon.matrices([before])):
        assert (p - q).norm() < 0.02 * (q - start).norm()


def test_singular_values_become_about_one():
    stack = torch.randn(3, 20, 50, generator=torch.Generator().manual_seed(1))
    for x in (stack, stack.mT):
        values = torch.linalg.svdvals(muon.orthogonal(x).float())
        assert values.min() > 0.4 and values.max() < 1.4


def test_a_saved_state_goes_on_as_it_was():
    net = network()
    optimizer = muon.Muon(muon.matrices([net]), lr=1e-2)
    for p in net.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()
    other = copy.deepcopy(net)
    again = muon.Muon(muon.matrices([other]), lr=1e-2)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for model, steps in ((net, optimizer), (other, again)):
        for p in model.parameters():
            p.grad = torch.linspace(-1, 1, p.numel()).view_as(p)
        steps.step()
    assert all(torch.equal(p, q) for p, q in zip(net.parameters(), other.parameters()))


def test_embeddings_are_not_its_matrices():
    encoder = UMT5Encoder(UMT5Config(num_layers=1))
    found = muon.matrices([encoder])
    assert len(found) == 7 and all(p.dim() == 2 for p in found)
    assert not any(p is encoder.shared.weight for p in found)
