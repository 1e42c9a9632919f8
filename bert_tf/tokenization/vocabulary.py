"""`vocab.txt`: reading and checking it, and whether it fits a checkpoint.

Imports `errors` and `files`; numpy.
"""

import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf import files
from bert_tf.errors import InputError

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# WordPiece encodes a length in 8 bits.
_MAX_TOKEN_BYTES = 256
_PADDING = 128
# No text gives a token with one of these, but WordPiece would find it over two words.
_BLANKS = re.compile(r"[ \t\r\x00]")
# Two entries of the released Chinese file, which would be "" and "##" without the white space.
_KEPT_WHOLE = ("\u2028", "##\u2028")
_SURROGATES = re.compile("[\ud800-\udfff]")


def as_vocabulary(vocab: Any) -> list[str]:
    """The tokens of what a user gives.

    Args:
        vocab: Path of a `vocab.txt`, or the tokens: a list, a tuple or a numpy array of str.

    Raises:
        InputError: It is something else, or as in `load_vocabulary`.
    """
    if isinstance(vocab, (str, os.PathLike)):
        return load_vocabulary(os.fspath(vocab))
    if not isinstance(vocab, (list, tuple, np.ndarray)):
        raise InputError(
            f"vocab is the path of a vocab.txt or a list of tokens in the order of their ids. "
            f"Received: a value of type {type(vocab).__name__}."
        )
    tokens = [str(token) if isinstance(token, str) else token for token in vocab]
    check_vocabulary(tokens)
    return tokens


def load_vocabulary(path: str) -> list[str]:
    r"""Reads a `vocab.txt`: a token a line, its id the number of the line, from 0.

    Lines end at \n or \r\n only. White space around a token is dropped, as in the released
    `load_vocab`, but for two entries of the released Chinese file, U+2028 and ##U+2028.

    Args:
        path: The file, UTF-8, local or gs://.

    Raises:
        InputError: The file is missing, not UTF-8, has an empty line before its end, a blank or a
            NUL inside a token, a token twice, a token over 256 bytes, or lacks a special token.
            The line is named.
    """
    lines = [_stripped(line) for line in files.read_text(path).split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    if lines:
        lines[0] = lines[0].removeprefix("\ufeff")
    check_vocabulary(lines, path)
    return lines


def _stripped(line: str) -> str:
    token = line.strip(" \t\r")
    return token if token in _KEPT_WHOLE else token.strip()


def check_vocabulary(tokens: Sequence[str], source: str = "the vocabulary") -> None:
    """Checks that the tokens can be a vocabulary.

    Args:
        tokens: The tokens in the order of their ids.
        source: Where they are from, for the message.

    Raises:
        InputError: As in `load_vocabulary`.
    """
    seen: dict[str, int] = {}
    for line, token in enumerate(tokens, 1):
        if not isinstance(token, str):
            raise InputError(f"{source}: a token is a str. Received: {token!r} as number {line}.")
        if not token:
            raise InputError(f"{source}: line {line} is empty. Every line must hold a token.")
        if _BLANKS.search(token):
            raise InputError(
                f"{source}: line {line} holds a blank or a NUL: {token!r}. A line is one token."
            )
        if token in seen:
            raise InputError(
                f"{source}: line {line} repeats {token!r} of line {seen[token]}. Remove one."
            )
        if _SURROGATES.search(token):
            raise InputError(
                f"{source}: line {line} holds half a surrogate pair: {token!r}. UTF-8 has no such."
            )
        if len(token.encode()) > _MAX_TOKEN_BYTES:
            raise InputError(
                f"{source}: line {line} is longer than {_MAX_TOKEN_BYTES} bytes. Is this a "
                f"vocab.txt, with a token a line?"
            )
        seen[token] = line
    missing = [token for token in SPECIAL_TOKENS if token not in seen]
    if missing:
        raise InputError(
            f"{source}: none of the {len(tokens)} lines is {' or '.join(missing)}. A vocabulary of "
            f"BERT holds {' '.join(SPECIAL_TOKENS)}."
        )


def check_size(tokens: Sequence[str], vocab_size: int, source: str = "the vocabulary") -> None:
    """Checks a vocabulary against the `vocab_size` of a model.

    A model may have up to 127 entries more: some pad their tables to a multiple of 8 or 128.

    Raises:
        InputError: They differ; both are named.
    """
    if not 0 <= vocab_size - len(tokens) < _PADDING:
        raise InputError(
            f"{source} has {len(tokens)} entries, the model's vocab_size is {vocab_size}. Take the "
            f"vocab.txt that the model was trained with."
        )


_RELEASED = re.compile(r"(?:^|/)((?:wwm_)?(uncased|cased|multilingual|multi_cased|chinese)_[^/]*)/")
_LOWER_CASED = {
    "uncased_L-24_H-1024_A-16", "uncased_L-12_H-768_A-12", "multilingual_L-12_H-768_A-12",
    "chinese_L-12_H-768_A-12",
}  # fmt: skip
_CASED = {
    "cased_L-12_H-768_A-12", "cased_L-24_H-1024_A-16", "multi_cased_L-12_H-768_A-12",
}  # fmt: skip


def validate_case_matches_checkpoint(do_lower_case: bool, init_checkpoint: str | None) -> None:
    """Refuses a casing that is not the one of the released checkpoint named by the path.

    Args:
        do_lower_case: Whether text is to be lower-cased.
        init_checkpoint: Path of a checkpoint such as `uncased_L-12_H-768_A-12/bert_model.ckpt`;
            a path that names no released model is let through.

    Raises:
        InputError: They differ; both are named.

    Source: google-research/bert `tokenization.validate_case_matches_checkpoint`; we also know
    the smaller and the whole-word-masking models, by the start of the folder's name.
    """
    match = _RELEASED.search(init_checkpoint or "")
    if not match:
        return
    folder = match[1].removeprefix("wwm_")
    lower_cased = folder in _LOWER_CASED or folder.startswith("uncased_")
    if not lower_cased and folder not in _CASED and not folder.startswith("cased_"):
        return
    if do_lower_case != lower_cased:
        raise InputError(
            f"do_lower_case is {do_lower_case}, but {init_checkpoint} is a model for "
            f"{'lower-cased' if lower_cased else 'cased'} text. Set do_lower_case to {lower_cased}."
        )
