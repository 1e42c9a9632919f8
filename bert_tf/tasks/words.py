"""Tokenizes texts that are given as lists of words, and keeps the place of each word.

Shape letters: W words, T pieces (WordPiece tokens).
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from bert_tf.tokenization import BertTokenizer


@dataclasses.dataclass(frozen=True)
class Pieces:
    """The WordPiece tokens of a sequence of words.

    Attributes:
        ids: int32 [T].
        first: int64 [W + 1], the index of the first piece of each word, and T.
    """

    ids: np.ndarray
    first: np.ndarray

    def words(self) -> np.ndarray:
        """Returns the index of the word of each piece: int64 [T]."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    def is_empty(self) -> np.ndarray:
        """Returns whether a word has no piece, as one of control characters: bool [W]."""
        return np.diff(self.first) == 0

    def fill_empty_words(self, piece: int) -> "Pieces":
        """Returns the pieces, with one piece of the given id for each word without a piece."""
        is_empty = self.is_empty()
        ids: np.ndarray = np.insert(self.ids, self.first[:-1][is_empty], piece)
        return Pieces(ids, self.first + np.concatenate([[0], np.cumsum(is_empty)]))


def tokenize_words(
    contexts: Iterable[tuple[str, ...]], tokenizer: "BertTokenizer"
) -> list[Pieces]:
    """Tokenizes contexts word by word; each different word is tokenized once.

    Args:
        contexts: The words of each context.
        tokenizer: Converts text to ids.
    """
    contexts = list(contexts)
    all_pieces = tokenize_sequence(
        [word for words in contexts for word in words], tokenizer
    )
    pieces, word = [], 0
    for words in contexts:
        first = all_pieces.first[word : word + len(words) + 1]
        pieces.append(Pieces(all_pieces.ids[first[0] : first[-1]], first - first[0]))
        word += len(words)
    return pieces


def tokenize_sequence(words: Sequence[str], tokenizer: "BertTokenizer") -> Pieces:
    """Tokenizes W words; each different word is tokenized once."""
    index: dict[str, int] = {}
    numbers = np.array([index.setdefault(word, len(index)) for word in words], np.int64)
    if not index:
        return Pieces(np.zeros(0, np.int32), np.zeros(1, np.int64))
    tokenized = tokenizer.tokenize(list(index))
    splits, ids = tokenized.row_splits.numpy(), tokenized.values.numpy()
    lengths = np.diff(splits)[numbers]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    flat = ids[np.repeat(splits[numbers] - ends[:-1], lengths) + np.arange(ends[-1])]
    return Pieces(flat, ends)


def is_word_start(vocabulary: Sequence[str]) -> np.ndarray:
    """Returns for each token of a vocabulary whether it starts a word: bool [V]."""
    return np.array([not token.startswith("##") for token in vocabulary], bool)
