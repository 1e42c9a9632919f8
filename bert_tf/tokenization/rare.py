"""The rules that look at more than one character, as graph operations over code points.

The normalizer maps each character by itself. That is all the rules ask for, but for invalid UTF-8,
the final sigma, and the order of a few marks that are not dropped as accents. Text that holds none
of them, nearly all, never comes here. Imports `tables`; TensorFlow.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.tokenization import tables

_SIGMA, _SMALL_SIGMA, _FINAL_SIGMA = 0x3A3, 0x3C3, 0x3C2


def ordinary_text(do_lower_case: bool) -> str:
    """A regular expression that matches text without any of the rare cases, as a whole.

    Invalid UTF-8 matches no character of a class. Surrogates are named because RE2 takes their
    encoding for valid.
    """
    rare = r"\x{D800}-\x{DFFF}"
    if do_lower_case:
        moving = "".join(f"\\x{{{code:X}}}" for code in tables.load()["moving"])
        rare += f"\\x{{{_SIGMA:X}}}{moving}"
    return f"[^{rare}]*"


def prepare(texts: Any, do_lower_case: bool) -> Any:
    """Rewrites texts so that the normalizer, character by character, gives what the rules give.

    Args:
        texts: string [N], any bytes.
        do_lower_case: Whether they will be lower-cased.

    Returns:
        string [N], valid UTF-8.
    """
    codes, _ = _decode(texts, do_lower_case)
    return tf.strings.unicode_encode(codes, "UTF-8")


def prepare_with_offsets(texts: Any, do_lower_case: bool) -> tuple[Any, Any]:
    """As `prepare`, and where each byte of the result comes from.

    Args:
        texts: string [N], any bytes.
        do_lower_case: Whether they will be lower-cased.

    Returns:
        The rewritten texts, string [N], and the offset of the character that each of their bytes
        comes from in the original, and at the end the original's length: ragged int64
        [N, bytes + 1].
    """
    codes, starts = _decode(texts, do_lower_case)
    flat = codes.values
    sizes = 1 + sum(tf.cast(flat >= least, tf.int64) for least in (0x80, 0x800, 0x10000))
    counts = tf.RaggedTensor.from_row_splits(sizes, codes.row_splits, validate=False)
    lengths = tf.reduce_sum(counts, axis=1)
    origins = tf.RaggedTensor.from_row_lengths(tf.repeat(starts, sizes), lengths, validate=False)
    ends = tf.cast(tf.strings.length(texts), tf.int64)[:, None]
    return tf.strings.unicode_encode(codes, "UTF-8"), tf.concat([origins, ends], axis=1)


def stand_ins() -> str:
    """A regular expression that finds what stands for later punctuation in normalized text."""
    return f"[\\x{{{tables.STAND_INS[0]:X}}}-\\x{{{tables.STAND_INS[-1]:X}}}]"


def without_stand_ins(texts: Any) -> Any:
    """Puts the characters themselves where something stands for them.

    Args:
        texts: string [N], normalized.

    Returns:
        string [N].
    """
    codes = tf.strings.unicode_decode(texts, "UTF-8")
    index = codes.values - tables.STAND_INS[0]
    found = (index >= 0) & (index < len(tables.STAND_INS))
    restored = tf.gather(tables.LATER_PUNCTUATION, tf.where(found, index, 0))
    flat = tf.where(found, restored, codes.values)
    return tf.strings.unicode_encode(codes.with_values(flat), "UTF-8")


def _decode(texts: Any, do_lower_case: bool) -> tuple[Any, Any]:
    """Code points, ragged int32 [N, characters], and their starts in bytes, int64 [all]."""
    codes, starts = tf.strings.unicode_decode_with_offsets(texts, "UTF-8", errors="ignore")
    rows, flat, starts = codes.value_rowids(), codes.values, starts.values
    if do_lower_case:
        # Removed characters part neither words nor marks: they must go first.
        kept = tf.where(_classes(flat) & tables.REMOVED == 0)[:, 0]
        rows, flat, starts = (tf.gather(each, kept) for each in (rows, flat, starts))
        flat = _lower_sigmas(flat, rows)
        rows, flat, starts = _order_marks(rows, flat, starts)
    codes = tf.RaggedTensor.from_value_rowids(flat, rows, tf.size(texts, tf.int64), validate=False)
    return codes, starts


def _classes(codes: Any) -> Any:
    arrays = tables.load()
    ranges = tf.searchsorted(arrays["class_bounds"], codes, side="right") - 1
    return tf.gather(arrays["classes"], ranges)


def _lower_sigmas(codes: Any, rows: Any) -> Any:
    """Lower-cases each capital sigma by its context.

    It is a final sigma where, case-ignorable characters left out, a cased one stands before it
    and none behind. Spaces are neither, so a word's bounds need no care.

    Source: Unicode 14.0, section 3.13, Final_Sigma, as in Python's `str.lower`.
    """
    classes = _classes(codes)
    solid = tf.where(classes & tables.IGNORABLE == 0)[:, 0]
    cased = tf.gather(classes, solid) & tables.CASED != 0
    row = tf.gather(rows, solid)
    joined = row[1:] == row[:-1]
    before = tf.pad(cased[:-1] & joined, [[1, 0]])
    after = tf.pad(cased[1:] & joined, [[0, 1]])
    sigmas = tf.where(tf.gather(codes, solid) == _SIGMA)[:, 0]
    final = tf.gather(before & ~after, sigmas)
    lowered = tf.where(final, _FINAL_SIGMA, _SMALL_SIGMA)
    return tf.tensor_scatter_nd_update(codes, tf.gather(solid, sigmas)[:, None], lowered)


def _order_marks(rows: Any, codes: Any, starts: Any) -> tuple[Any, Any, Any]:
    """Brings runs of combining marks into canonical order.

    Only marks that are not dropped need it. The starts stay in place, so that a span over a run
    covers it.

    Source: Unicode 14.0, section 3.11, Canonical Ordering Algorithm.
    """
    rows, codes, starts = _split_marks(rows, codes, starts)
    combining = tf.cast(_classes(codes) & 0xFF, tf.int64)
    changed = tf.pad(rows[1:] != rows[:-1], [[1, 0]])
    runs = tf.cumsum(tf.cast((combining == 0) | changed, tf.int64))
    order = tf.argsort(runs * 256 + combining, stable=True)
    return rows, tf.gather(codes, order), starts


def _split_marks(rows: Any, codes: Any, starts: Any) -> tuple[Any, Any, Any]:
    """Decomposes the characters that hold a mark that is not dropped."""
    arrays = tables.load()
    moving, lengths = arrays["moving"], arrays["moving_lengths"]
    firsts = (np.cumsum(lengths) - lengths).astype(np.int32)
    index = tf.minimum(tf.searchsorted(moving, codes), len(moving) - 1)
    found = tf.gather(moving, index) == codes
    counts = tf.where(found, tf.gather(lengths, index), 1)
    nth = tf.range(tf.reduce_sum(counts)) - tf.repeat(tf.cumsum(counts, exclusive=True), counts)
    part = tf.repeat(tf.where(found, tf.gather(firsts, index), 0), counts) + nth
    parts = tf.gather(arrays["moving_codes"], part)
    codes = tf.where(tf.repeat(found, counts), parts, tf.repeat(codes, counts))
    return tf.repeat(rows, counts), codes, tf.repeat(starts, counts)
