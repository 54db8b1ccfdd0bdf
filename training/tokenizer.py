"""Text to token ids: a SentencePiece unigram model of the grammar, and the cleaning before it.

The model that ships was made by this command; another version of SentencePiece may make another:
    python -m training.tokenizer --out models/wan-toy/tokenizer/spiece.model
"""
from __future__ import annotations

import argparse
import functools
import io
import string
from pathlib import Path

import sentencepiece
import torch
from torch import Tensor

from training import grammar

MAX_LENGTH = 32  # tokens of a prompt, </s> included
PAD, EOS, BOS, UNK = 0, 1, 2, 3


def train_tokenizer(sentences: list[str], vocab_size: int, rule: str = "nmt_nfkc_cf") -> bytes:
    """A serialised unigram model. `rule` is SentencePiece's normalisation; nmt_nfkc_cf also folds
    case, so "Red" and "red" are one word to every program that reads the file."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=model,
        model_type="unigram",
        vocab_size=vocab_size,
        hard_vocab_limit=False,  # the grammar may have fewer pieces than asked for
        character_coverage=1.0,
        required_chars=string.ascii_lowercase + string.digits + ",.-",
        normalization_rule_name=rule,
        pad_id=PAD,
        eos_id=EOS,
        bos_id=BOS,
        unk_id=UNK,
        num_threads=1,
        minloglevel=2,
    )
    return model.getvalue()


def grammar_sentences() -> list[str]:
    """Captions and, as often, their single words: without those, words fall apart in pieces."""
    captions = grammar.all_captions()[::50]
    words = sorted({word for caption in captions for word in caption.replace(",", " ,").split()})
    return captions + 50 * words


class Tokenizer:
    def __init__(self, model: bytes):
        self.model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self._encode_one = functools.lru_cache(maxsize=1 << 20)(self._encode)

    @staticmethod
    def from_file(path: Path) -> Tokenizer:
        return Tokenizer(path.read_bytes())

    @property
    def vocab_size(self) -> int:
        return self._processor.get_piece_size()

    def _encode(self, prompt: str) -> tuple[int, ...]:
        pieces = self._processor.encode(" ".join(prompt.split()))
        return tuple(pieces[: MAX_LENGTH - 1] + [EOS])

    def loses(self, prompt: str) -> bool:
        """Whether ids do not say all of the prompt: it is too long, or has characters that the model lacks."""
        pieces = self._processor.encode(" ".join(prompt.split()))
        return len(pieces) > MAX_LENGTH - 1 or UNK in pieces

    def encode(self, prompts: list[str]) -> Tensor:
        """Ids int64 [B, MAX_LENGTH], padded with 0. The empty prompt is </s> alone."""
        encoded = (self._encode_one(prompt) for prompt in prompts)
        rows = [[*ids, *[PAD] * (MAX_LENGTH - len(ids))] for ids in encoded]
        return torch.tensor(rows, dtype=torch.int64).reshape(-1, MAX_LENGTH)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_bytes(train_tokenizer(grammar_sentences(), vocab_size=160))


if __name__ == "__main__":
    main()
