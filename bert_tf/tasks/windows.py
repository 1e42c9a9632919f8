"""Splits words into pieces, and texts that are too long into overlapping windows.

Pieces are WordPiece tokens. A window is a part of a text that fits into one sequence,
and the argument `room` is the largest number of its pieces.

Shape letters: N texts, T pieces of a text, V vocabulary. W is the number of words in
the functions about words, and the number of windows of a text in the others.
"""

import dataclasses
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from bert_tf.tokenization import BertTokenizer


@dataclasses.dataclass(frozen=True)
class Pieces:
    """The WordPiece tokens of a sequence of words.

    Attributes:
        ids: int32 [T].
        first: int64 [W + 1], the index of the first piece of each word, and T at the
            end.
    """

    ids: np.ndarray
    first: np.ndarray

    def is_empty(self) -> np.ndarray:
        """Returns for each word whether it has no piece, such as a control character: bool [W]."""
        return np.diff(self.first) == 0

    def fill_empty_words(self, piece: int) -> "Pieces":
        """Returns a copy with one piece, of the id `piece`, for each word without pieces."""
        is_empty = self.is_empty()
        ids: np.ndarray = np.insert(self.ids, self.first[:-1][is_empty], piece)
        return Pieces(ids, self.first + np.concatenate([[0], np.cumsum(is_empty)]))


def tokenize_words(
    contexts: Collection[tuple[str, ...]], tokenizer: "BertTokenizer"
) -> list[Pieces]:
    """Returns the pieces of each context (a tuple of words); tokenizes each distinct word once."""
    all_pieces = tokenize_sequence(
        [word for words in contexts for word in words], tokenizer
    )

    pieces = []
    word = 0
    for words in contexts:
        first = all_pieces.first[word : word + len(words) + 1]
        pieces.append(Pieces(all_pieces.ids[first[0] : first[-1]], first - first[0]))
        word += len(words)
    return pieces


def tokenize_sequence(words: Sequence[str], tokenizer: "BertTokenizer") -> Pieces:
    """Returns the pieces of W words; tokenizes each distinct word once."""
    index: dict[str, int] = {}
    numbers = np.array([index.setdefault(word, len(index)) for word in words], np.int64)
    if not index:
        return Pieces(np.zeros(0, np.int32), np.zeros(1, np.int64))
    tokenized = tokenizer.tokenize(list(index))
    splits = tokenized.row_splits.numpy()
    ids = tokenized.values.numpy()

    # From the pieces of the distinct words to the pieces of all words: [T]
    lengths = np.diff(splits)[numbers]  # [W]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    word, offset = group_and_place(lengths)
    return Pieces(ids[splits[numbers[word]] + offset], ends)


def is_word_start(vocabulary: Sequence[str]) -> np.ndarray:
    """Returns for each token of a vocabulary whether it starts a word: bool [V]."""
    return np.array([not token.startswith("##") for token in vocabulary], bool)


def stride_of(room: int) -> int:
    """Returns the default stride: half of `room`, in pieces between window starts.

    In one of its windows, each word then has at least a quarter of a window as context
    on both sides, except near the start and the end of the text.
    """
    return max(1, room // 2)


def group_and_place(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the group of each of M items, and its index in the group: int [M] each.

    `sizes`, int [N], has the number of items of each group; their sum is M. For
    example, the sizes [2, 1] give the groups [0, 0, 1] and the indices [0, 1, 0].
    """
    group: np.ndarray = np.repeat(np.arange(len(sizes)), sizes)
    first = np.cumsum(sizes) - sizes  # of each group
    return group, np.arange(len(group)) - first[group]


def count_windows(
    num_pieces: np.ndarray, room: np.ndarray, doc_stride: int
) -> np.ndarray:
    """Returns the number of windows of each text, int [N]; 0 for a text without pieces.

    `num_pieces` and `room` are int [N]; `room` and `doc_stride`, the number of pieces
    between the starts of windows, are at least 1. A `doc_stride` that is larger than
    `room` gives adjacent windows.

    Source: google-research/bert `run_squad.convert_examples_to_features`.
    """
    stride = np.minimum(room, doc_stride)
    further = -(-np.maximum(num_pieces - room, 0) // stride)
    return np.where(num_pieces > 0, 1 + further, 0)


def windows(
    num_pieces: int, room: int, doc_stride: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first piece and the number of pieces of each window: int [W] each.

    The arguments are those of `count_windows`, for one text.
    """
    count = int(count_windows(np.array(num_pieces), np.array(room), doc_stride))
    starts: np.ndarray = np.arange(count) * min(room, doc_stride)
    return starts, np.minimum(room, num_pieces - starts)


def has_max_context(starts: np.ndarray, lengths: np.ndarray, window: int) -> np.ndarray:
    """Returns for each piece of a window whether no other window gives it more context.

    The context of a piece is the smaller number of its neighbors in the window to the
    left and to the right, plus a hundredth of the length of the window. Of windows with
    equal context, the first window counts. `starts` and `lengths` are the arrays that
    `windows` returns, `window` is an index in them, and the result is bool
    [lengths[window]].

    Source: google-research/bert `run_squad._check_is_max_context`.
    """
    pieces = starts[window] + np.arange(lengths[window])
    left = pieces - starts[:, None]  # [W, lengths[window]]
    right = starts[:, None] + lengths[:, None] - 1 - pieces
    nearest = np.minimum(left, right)
    score = np.where(nearest >= 0, nearest + 0.01 * lengths[:, None], -np.inf)
    return score.argmax(axis=0) == window
