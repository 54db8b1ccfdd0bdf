"""The tokenizer's special ids, cleaning and padding."""
from pathlib import Path

import pytest

from training import grammar
from training.tokenizer import EOS, MAX_LENGTH, PAD, UNK, Tokenizer

MODEL = Path(__file__).resolve().parents[2] / "models/wan-toy/tokenizer/spiece.model"


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.from_file(MODEL)


def test_special_ids(tokenizer):
    processor = tokenizer._processor
    names = [processor.id_to_piece(i) for i in range(4)]
    assert names == ["<pad>", "</s>", "<s>", "<unk>"]
    assert tokenizer.vocab_size <= 512


def test_the_empty_prompt_is_the_end_alone(tokenizer):
    assert tokenizer.encode(["", "  "]).tolist() == [[EOS] + [PAD] * (MAX_LENGTH - 1)] * 2


def test_captions_fit_and_have_no_unknown_piece(tokenizer):
    ids = tokenizer.encode(grammar.all_captions()[::37])
    assert (ids[:, -1] == PAD).all() and not (ids == UNK).any()
    assert ((ids == EOS).sum(1) == 1).all()


def test_spaces_and_case_do_not_matter(tokenizer):
    ids = tokenizer.encode(["a red  ring\tmoving up ", "A Red ring moving UP"])
    assert ids[0].tolist() == ids[1].tolist()


def test_a_long_prompt_is_cut_before_the_end(tokenizer):
    ids = tokenizer.encode(["red " * 100])[0]
    assert ids[-1] == EOS and (ids[:-1] == ids[0]).all()
