"""Splits the pieces of a text that is too long for the model into overlapping windows.

Shape letters: N texts, W windows of a text, T pieces (tokens) of a text.
"""

import numpy as np


def stride_of(room: int) -> int:
    """Returns the number of pieces between the starts of successive windows.

    With half of a window, a word has at least a quarter of a window on both sides,
    except at the start and at the end of the sentence.

    Args:
        room: The largest number of pieces in a window.
    """
    return max(1, room // 2)


def count_windows(
    num_pieces: np.ndarray, room: np.ndarray, doc_stride: int
) -> np.ndarray:
    """Returns the number of windows of each text.

    Args:
        num_pieces: int [N], T of each text.
        room: int [N], the maximum number of pieces in a window; at least 1.
        doc_stride: Pieces between the starts of successive windows; at least 1. A
            stride that is larger than a window gives adjacent windows.

    Returns:
        int [N]; 0 for a text without pieces.

    Source: google-research/bert `run_squad.convert_examples_to_features`.
    """
    stride = np.minimum(room, doc_stride)
    further = -(-np.maximum(num_pieces - room, 0) // stride)
    return np.where(num_pieces > 0, 1 + further, 0)


def windows(
    num_pieces: int, room: int, doc_stride: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first piece and the number of pieces of each window: int [W] each."""
    count = int(count_windows(np.array(num_pieces), np.array(room), doc_stride))
    starts: np.ndarray = np.arange(count) * min(room, doc_stride)
    return starts, np.minimum(room, num_pieces - starts)


def has_max_context(starts: np.ndarray, lengths: np.ndarray, window: int) -> np.ndarray:
    """Returns for each piece of a window whether no other window gives it more context.

    The context of a piece is the smaller number of its neighbors in the window to the
    left and to the right, plus a hundredth of the length of the window. Of windows with
    equal context, the first one counts.

    Args:
        starts: int [W], the first piece of each window.
        lengths: int [W], the number of pieces of each window.
        window: Index of the window.

    Returns:
        bool [lengths[window]].

    Source: google-research/bert `run_squad._check_is_max_context`.
    """
    pieces = starts[window] + np.arange(lengths[window])
    left = pieces - starts[:, None]
    right = starts[:, None] + lengths[:, None] - 1 - pieces
    nearest = np.minimum(left, right)
    score = np.where(nearest >= 0, nearest + 0.01 * lengths[:, None], -np.inf)
    best: np.ndarray = score.argmax(axis=0) == window
    return best
