"""Tokenized documents as flat arrays.

A segment is a group of whole documents (see `segments`).
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from bert_tf import features


@dataclasses.dataclass(frozen=True)
class Documents:
    """D documents as flat arrays, with N sentences and T tokens in total.

    Attributes:
        tokens: uint16 or int32 [T], the token ids.
        sentences: int64 [N + 1], the index in `tokens` at which each sentence starts,
            then the end of the last sentence.
        documents: int64 [D + 1], the index in `sentences` at which each document
            starts, then the end of the last document.
        ids: uint64 [D]. The id of a document is s * 2**32 + d, if the document has the
            number d in the segment with the number s. A document has the same id in
            every run.
    """

    tokens: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray
    ids: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    def where(self, keep: np.ndarray) -> "Documents":
        """Returns the documents for which `keep`, bool [D], is true."""
        per_document = np.diff(self.documents)
        per_sentence = np.diff(self.sentences)
        sentences: np.ndarray = np.repeat(keep, per_document)
        tokens: np.ndarray = np.repeat(sentences, per_sentence)
        return Documents(
            self.tokens[tokens],
            offsets(per_sentence[sentences]),
            offsets(per_document[keep]),
            self.ids[keep],
        )

    @staticmethod
    def joined(parts: Sequence["Documents"]) -> "Documents":
        """Concatenates several `Documents`."""
        return Documents(
            np.concatenate([part.tokens for part in parts]),
            offsets(np.concatenate([np.diff(part.sentences) for part in parts])),
            offsets(np.concatenate([np.diff(part.documents) for part in parts])),
            np.concatenate([part.ids for part in parts]),
        )


def offsets(lengths: np.ndarray) -> np.ndarray:
    """Returns the cumulative sum of `lengths`, int [n], after a 0: int64 [n + 1]."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def tokenize(
    number: int,
    blocks: Iterable[tuple[list[str], np.ndarray]],
    tokenize_batch: Callable[[list[str]], Any],
    vocab_size: int,
) -> Documents:
    """Tokenizes a segment, and drops sentences and documents without tokens.

    Args:
        number: Index of the segment, from 0.
        blocks: The blocks of sentences that `sentences.read` yields.
        tokenize_batch: Maps B strings to a ragged int32 tensor [B, None].
        vocab_size: Size of the vocabulary, V.
    """
    dtype = np.dtype(features.ids_dtype(vocab_size))
    tokens: list[np.ndarray] = [np.zeros(0, dtype)]
    lengths: list[np.ndarray] = [np.zeros(0, np.int64)]
    numbers: list[np.ndarray] = [np.zeros(0, np.int64)]
    for sentences, documents in blocks:
        if sentences:
            ragged = tokenize_batch(sentences)
            tokens.append(ragged.flat_values.numpy().astype(dtype))
            lengths.append(ragged.row_lengths().numpy().astype(np.int64))
            numbers.append(documents)
    length = np.concatenate(lengths)
    keep = length > 0
    _, per_document = np.unique(np.concatenate(numbers)[keep], return_counts=True)
    ids = (np.uint64(number) << np.uint64(32)) + np.arange(
        len(per_document), dtype=np.uint64
    )
    return Documents(
        np.concatenate(tokens), offsets(length[keep]), offsets(per_document), ids
    )
