"""The weighted mean of two models."""
import pytest
import torch
from torch import nn

from training.mix import mix_


def test_a_share_of_the_way_is_gone():
    ours, theirs = nn.Linear(3, 2), nn.Linear(3, 2)
    expected = {name: 0.75 * p + 0.25 * theirs.state_dict()[name] for name, p in ours.state_dict().items()}
    mix_(ours, theirs, 0.25)
    for name, p in ours.state_dict().items():
        torch.testing.assert_close(p, expected[name])


def test_models_of_other_sizes_are_refused():
    with pytest.raises(ValueError, match="expected models with the same weights"):
        mix_(nn.Linear(3, 2), nn.Linear(3, 4), 0.5)
