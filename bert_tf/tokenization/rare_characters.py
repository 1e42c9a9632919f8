"""The tokenizer rules that depend on more than one character, as graph operations.

The normalizer (a tensorflow_text operation) maps each character by itself. Its results
are correct except for invalid UTF-8, for a capital sigma at the end of a word, and for
the order of a few combining characters that are not removed as accents. Before the
normalizer runs, the functions of this module rewrite the texts that contain such a rare
case. Nearly all texts contain none.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.tokenization import unicode_tables

_CAPITAL_SIGMA = 0x3A3
_SMALL_SIGMA = 0x3C3
_FINAL_SIGMA = 0x3C2
# Tracing takes long, so all graphs of a process call one graph of a function. Its
# operations run on the device of the call.
_in_one_graph = tf.function(autograph=False, reduce_retracing=True)


def ordinary_text_pattern(do_lower_case: bool) -> str:
    """Returns a regular expression that fully matches texts without a rare case.

    In RE2, invalid UTF-8 matches no character class. The pattern excludes surrogates
    explicitly because RE2 accepts encoded surrogates as valid.
    """
    rare = r"\x{D800}-\x{DFFF}"
    if do_lower_case:
        reorderable = unicode_tables.load()["reorderable"]
        rare += f"\\x{{{_CAPITAL_SIGMA:X}}}"
        rare += "".join(f"\\x{{{code:X}}}" for code in reorderable)
    return f"[^{rare}]*"


@_in_one_graph
def rewrite(texts: Any, do_lower_case: bool) -> Any:
    """Rewrites texts so that normalizing each character alone gives the right result.

    `texts`, string [N], may have any bytes; the result is valid UTF-8. `do_lower_case`
    says whether the normalizer will lower-case the texts.
    """
    codes, _ = _decode(texts, do_lower_case)
    return tf.strings.unicode_encode(codes, "UTF-8")


@_in_one_graph
def rewrite_with_offsets(texts: Any, do_lower_case: bool) -> tuple[Any, Any]:
    """Rewrites texts as `rewrite` does, and returns the origin of each byte.

    Returns:
        The rewritten texts, string [N], and their origins, ragged int64 [N, bytes + 1].
        The origin of a byte is the offset, in bytes of the original text, of the
        character from which the byte comes. The last value of a row is the length of
        the original text.
    """
    codes, starts = _decode(texts, do_lower_case)

    # The number of bytes of each code point, [characters of all texts], and text, [N].
    sizes = 1 + sum(
        tf.cast(codes.values >= least, tf.int64) for least in (0x80, 0x800, 0x10000)
    )
    counts = tf.RaggedTensor.from_row_splits(sizes, codes.row_splits, validate=False)
    lengths = tf.reduce_sum(counts, axis=1)

    # Each byte has the origin of its code point; a row ends with the text's length.
    origins = tf.RaggedTensor.from_row_lengths(
        tf.repeat(starts, sizes), lengths, validate=False
    )
    ends = tf.cast(tf.strings.length(texts), tf.int64)[:, None]
    return tf.strings.unicode_encode(codes, "UTF-8"), tf.concat([origins, ends], axis=1)


def placeholder_pattern() -> str:
    """Returns a regular expression that matches one of `unicode_tables.PLACEHOLDERS`."""
    placeholders = unicode_tables.PLACEHOLDERS
    return f"[\\x{{{placeholders[0]:X}}}-\\x{{{placeholders[-1]:X}}}]"


def restore_later_punctuation(texts: Any) -> Any:
    """Replaces the `unicode_tables.PLACEHOLDERS` with the characters they stand for."""
    codes = tf.strings.unicode_decode(texts, "UTF-8")
    index = codes.values - unicode_tables.PLACEHOLDERS[0]
    is_placeholder = (index >= 0) & (index < len(unicode_tables.PLACEHOLDERS))
    punctuation = tf.gather(
        unicode_tables.LATER_PUNCTUATION, tf.where(is_placeholder, index, 0)
    )
    restored = codes.with_values(tf.where(is_placeholder, punctuation, codes.values))
    return tf.strings.unicode_encode(restored, "UTF-8")


def _decode(texts: Any, do_lower_case: bool) -> tuple[Any, Any]:
    """Decodes texts to code points, and applies the rules of this module to them.

    Returns:
        The code points, ragged int32 [N, characters], and the offset of each code
        point, in bytes of the original text, int64 [characters of all texts].
    """
    codes, starts = tf.strings.unicode_decode_with_offsets(
        texts, "UTF-8", errors="ignore"
    )
    # For each character of all texts, [C]: its text, code point and offset.
    rows = codes.value_rowids()
    codes = codes.values
    starts = starts.values

    if do_lower_case:
        # The rules for adjacent characters ignore characters that the normalizer
        # removes.
        kept = tf.where(_classes(codes) & unicode_tables.REMOVED == 0)[:, 0]
        rows, codes, starts = (
            tf.gather(values, kept) for values in (rows, codes, starts)
        )
        codes = _lower_sigmas(codes, rows)
        rows, codes, starts = _order_combining_characters(rows, codes, starts)

    size = tf.size(texts, tf.int64)
    return tf.RaggedTensor.from_value_rowids(codes, rows, size, validate=False), starts


def _classes(codes: Any) -> Any:
    arrays = unicode_tables.load()
    ranges = tf.searchsorted(arrays["class_bounds"], codes, side="right") - 1
    return tf.gather(arrays["classes"], ranges)


def _lower_sigmas(codes: Any, rows: Any) -> Any:
    """Replaces each capital sigma with the final or the ordinary small sigma.

    Case-ignorable characters around a sigma are skipped. A sigma is final if the
    character before it is cased and the character after it is not cased. Spaces are
    neither cased nor case-ignorable, so a sigma next to a space needs no search for
    word boundaries. `rows`, int64 [C], has the index of the text of each code point in
    `codes`, int32 [C].

    Source: Unicode 14.0, section 3.13, Final_Sigma, as in Python's `str.lower`.
    """
    # The K characters that are not case-ignorable, [K], and whether they are cased.
    classes = _classes(codes)  # [C]
    context = tf.where(classes & unicode_tables.CASE_IGNORABLE == 0)[:, 0]
    cased = tf.gather(classes, context) & unicode_tables.CASED != 0

    # [K]: whether the neighbors in the same text are cased.
    context_rows = tf.gather(rows, context)
    same_text = context_rows[1:] == context_rows[:-1]
    cased_before = tf.pad(cased[:-1] & same_text, [[1, 0]])
    cased_after = tf.pad(cased[1:] & same_text, [[0, 1]])

    # Replace the capital sigmas, given by their indices in `context`.
    sigmas = tf.where(tf.gather(codes, context) == _CAPITAL_SIGMA)[:, 0]
    final = tf.gather(cased_before & ~cased_after, sigmas)
    lowered = tf.where(final, _FINAL_SIGMA, _SMALL_SIGMA)
    return tf.tensor_scatter_nd_update(
        codes, tf.gather(context, sigmas)[:, None], lowered
    )


def _order_combining_characters(
    rows: Any, codes: Any, starts: Any
) -> tuple[Any, Any, Any]:
    """Brings runs of combining characters into canonical order.

    The code points are reordered, but their offsets in the original texts, `starts`,
    are not. So for a token that contains such a run, the span (start and end in the
    original text) covers the complete run.

    Returns:
        Rows, codes and starts, each of shape [D]; D >= C, since some of the C code
        points are decomposed.

    Source: Unicode 14.0, section 3.11, Canonical Ordering Algorithm.
    """
    rows, codes, starts = _decompose(rows, codes, starts)

    # Sort each run of combining characters, which begins at a character of class 0, by
    # class: the key is 256 times the number of the run, plus the class.
    combining = tf.cast(_classes(codes) & 0xFF, tf.int64)
    new_text = tf.pad(rows[1:] != rows[:-1], [[1, 0]])
    runs = tf.cumsum(tf.cast((combining == 0) | new_text, tf.int64))
    order = tf.argsort(runs * 256 + combining, stable=True)
    return rows, tf.gather(codes, order), starts


def _decompose(rows: Any, codes: Any, starts: Any) -> tuple[Any, Any, Any]:
    """Decomposes the characters that are in the table `reorderable` of `unicode_tables`."""
    arrays = unicode_tables.load()
    characters = arrays["reorderable"]
    lengths = arrays["decomposition_lengths"]
    firsts = (np.cumsum(lengths) - lengths).astype(np.int32)

    # [C]: the index of each code point in the table, if it is found there, and the
    # number of code points that take its place.
    index = tf.minimum(tf.searchsorted(characters, codes), len(characters) - 1)
    in_table = tf.gather(characters, index) == codes
    counts = tf.where(in_table, tf.gather(lengths, index), 1)

    # [D]: for each code point of the result, the one it comes from, and its number in
    # the decomposition. The trace of `tf.repeat` is slow, so it is used once.
    source = tf.repeat(tf.range(tf.size(codes)), counts)
    nth = tf.range(tf.size(source)) - tf.gather(
        tf.cumsum(counts, exclusive=True), source
    )
    rows, codes, starts, in_table, index = (
        tf.gather(values, source) for values in (rows, codes, starts, in_table, index)
    )

    parts = tf.gather(
        arrays["decompositions"], tf.where(in_table, tf.gather(firsts, index) + nth, 0)
    )
    return rows, tf.where(in_table, parts, codes), starts
