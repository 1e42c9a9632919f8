"""Packs the ids of one or two texts as [CLS] A [SEP] B [SEP] into inputs of the model.

Shape letters: B batch, S sequence length.
"""

from typing import Any

import tensorflow as tf

from bert_tf.errors import InputError

_NOT_PAIRS = "Pairs need the same number of first and second texts"


def truncated_lengths(length_a: Any, length_b: Any, room: Any) -> tuple[Any, Any]:
    """Returns the lengths of both texts of each pair after truncation.

    The sum of both is at most `room`. Truncation removes tokens one by one from the end
    of the longer text. If both texts are equally long, a token of B is removed. All
    lengths are int32.

    Source: google-research/bert `run_classifier._truncate_seq_pair`.
    """
    kept_a = tf.minimum(length_a, tf.maximum(room - length_b, room - room // 2))
    kept_b = tf.minimum(length_b, tf.maximum(room - length_a, room // 2))
    return kept_a, kept_b


def check_pairs(
    ids_a: Any, ids_b: Any, single_a: bool, single_b: bool
) -> tuple[Any, Any]:
    """Checks that A and B have the same number of texts, so that none is broadcast.

    `ids_a` and `ids_b` are ragged int32 [B, None]. `single_a` and `single_b` say
    whether the caller gave one text instead of a batch; they must be equal.

    Returns:
        `ids_a` and `ids_b`. If a number of rows is known only when the graph runs, both
        returned tensors depend on an assertion. If the numbers of rows differ, the
        assertion fails before any operation on the tensors.
    """
    sizes = (ids_a.shape[0], ids_b.shape[0])
    if single_a != single_b or (None not in sizes and sizes[0] != sizes[1]):
        kinds = (
            "one text" if single else f"a batch of {size}"
            for single, size in zip((single_a, single_b), sizes, strict=True)
        )
        raise InputError(f"{_NOT_PAIRS}. Received: {' and '.join(kinds)}.")
    if None not in sizes:
        return ids_a, ids_b

    # The numbers are known only when the graph runs.
    rows_a = ids_a.nrows()
    rows_b = ids_b.nrows()
    message = (f"{_NOT_PAIRS}. Received: batches of", rows_a, "and", rows_b)
    with tf.control_dependencies([tf.debugging.Assert(rows_a == rows_b, message)]):
        # With tf.identity, not only the values but also the row splits depend on the
        # assertion.
        return tf.identity(ids_a), tf.identity(ids_b)


def pack(
    ids_a: Any,
    ids_b: Any,
    seq_length: int | None,
    special_ids: tuple[int, int, int],
    trim_to_longest: bool,
) -> dict[str, Any]:
    """Packs ids, ragged int32 [B, None], as `BertTokenizer.pack` describes it.

    `special_ids` are the ids of [CLS], [SEP] and [PAD].
    """
    cls_id, sep_id, pad_id = special_ids
    specials = 2 if ids_b is None else 3
    if seq_length is not None:
        if seq_length < specials:
            raise InputError(
                f"seq_length must be an integer of at least {specials}. Received: "
                f"{seq_length!r}."
            )
        seq_length = int(seq_length)  # it may be a number of NumPy

    # The number of tokens of A and B, and of the packed sequence: each [B, 1].
    a_start, a_length = _row_spans(ids_a)
    b_start, b_length = (
        (a_start, tf.zeros_like(a_length)) if ids_b is None else _row_spans(ids_b)
    )
    if seq_length is not None:
        a_length, b_length = truncated_lengths(
            a_length, b_length, seq_length - specials
        )
    total = a_length + b_length + specials

    to_longest = seq_length is None or trim_to_longest
    size = tf.reduce_max(tf.concat([total[:, 0], [0]], 0)) if to_longest else seq_length
    position = tf.range(size)[None]  # [1, S]

    # Write [CLS] A [SEP], and a [SEP] as the last token: [B, S].
    a_end = a_length + 1  # the position of the first [SEP]
    in_a = (position > 0) & (position < a_end)
    ids = tf.where(in_a, gather_where(in_a, ids_a, a_start + position - 1), pad_id)
    ids = tf.where(position == 0, cls_id, ids)
    ids = tf.where((position == a_end) | (position == total - 1), sep_id, ids)

    # Write B between the two [SEP].
    in_second = (position > a_end) & (position < total)
    if ids_b is not None:
        in_b = in_second & (position < total - 1)
        ids = tf.where(
            in_b, gather_where(in_b, ids_b, b_start + position - a_end - 1), ids
        )

    mask = tf.cast(position < total, tf.int32)
    segments = tf.cast(in_second, tf.int32)
    return {"input_ids": ids, "input_mask": mask, "segment_ids": segments}


def _row_spans(ids: Any) -> tuple[Any, Any]:
    """Returns for each row the index of its first value and its length: two int32 [B, 1]."""
    splits = tf.cast(ids.row_splits, tf.int32)
    return splits[:-1, None], (splits[1:] - splits[:-1])[:, None]


def gather_where(condition: Any, ids: Any, indices: Any) -> Any:
    """Returns `ids.values` at `indices` where `condition` is true, any value elsewhere.

    A 0 is appended to the values, so that tf.gather can read index 0 if `ids` has no
    values.
    """
    return tf.gather(tf.concat([ids.values, [0]], 0), tf.where(condition, indices, 0))
