"""Splits the tokens of long texts into windows, in the graph.

The windows are those of `tasks.windows`, which are the windows of
google-research/bert. A text may be the context of a question, which then precedes each
window.

Shape letters: B texts, R windows of all texts, S sequence length, T tokens of a text.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from bert_tf.tokenization import BertTokenizer
from bert_tf.tokenization.packing import gather_where


class Windows(NamedTuple):
    """The windows of a batch of texts.

    Attributes:
        row: int32 [R], the index of the text of each window.
        number: int32 [R], the number of the window among those of its text, from 0.
        first_token: int32 [R], the index of the window's first token in its text.
        length: int32 [R], the number of tokens of the text in the window.
        offset: int32 [R], the position of the first of these tokens in the sequence.
        room: int32 [B], the largest number of tokens of the text in a window.
        stride: int32 [B], the number of tokens between the starts of successive
            windows.
        num_tokens: int32 [B], the number of tokens of each text.
        count: int32 [B], the number of windows of each text.
    """

    row: Any
    number: Any
    first_token: Any
    length: Any
    offset: Any
    room: Any
    stride: Any
    num_tokens: Any
    count: Any


def split(
    texts: Any, room: Any, stride: int, offset: Any, min_count: int = 0
) -> Windows:
    """Splits texts into windows.

    Args:
        texts: Ids of the texts, ragged int32 [B, None].
        room: int32 [B], the largest number of tokens of the text in a window.
        stride: Tokens between the starts of successive windows. A stride that is larger
            than a window gives adjacent windows.
        offset: int32 [B], the position of the first token of a window in its sequence.
        min_count: The number of windows of a text without tokens, 0 or 1.
    """
    num_tokens = tf.cast(texts.row_lengths(), tf.int32)
    stride = tf.minimum(room, stride)
    further = -(-tf.maximum(num_tokens - room, 0) // stride)
    count = tf.where(num_tokens > 0, 1 + further, min_count)
    number = tf.ragged.range(count)
    row = tf.cast(number.value_rowids(), tf.int32)
    first = number.values * tf.gather(stride, row)
    return Windows(
        row=row,
        number=number.values,
        first_token=first,
        length=tf.minimum(tf.gather(room, row), tf.gather(num_tokens, row) - first),
        offset=tf.gather(offset, row),
        room=room,
        stride=stride,
        num_tokens=num_tokens,
        count=count,
    )


def sequences(
    windows: Windows,
    texts: Any,
    questions: Any | None,
    tokenizer: BertTokenizer,
    length: int | None = None,
) -> dict[str, Any]:
    """Returns `input_ids`, `input_mask` and `segment_ids` of windows, int32 [R, S].

    A sequence is [CLS] question [SEP] window [SEP], or [CLS] window [SEP]. Texts and
    questions are ids, ragged int32 [B, None].

    Args:
        length: S; None for the length of the longest sequence.
    """
    # Which positions are in the text, and which in a sequence at all.
    total = (windows.offset + windows.length + 1)[:, None]
    size = tf.reduce_max(tf.concat([total[:, 0], [1]], 0)) if length is None else length
    position = tf.range(size)[None]
    offset = windows.offset[:, None]
    mask = position < total
    in_text = (position >= offset) & (position < total - 1)

    text_start = first_value(texts, windows.row) + windows.first_token
    ids = tf.where(mask, tokenizer.sep_id, tokenizer.pad_id)
    ids = tf.where(position == 0, tokenizer.cls_id, ids)
    index = text_start[:, None] + position - offset
    ids = tf.where(in_text, gather_where(in_text, texts, index), ids)

    segments = tf.zeros_like(ids)
    if questions is not None:
        in_question = (position > 0) & (position < offset - 1)
        index = first_value(questions, windows.row)[:, None] + position - 1
        ids = tf.where(in_question, gather_where(in_question, questions, index), ids)
        segments = tf.cast(mask & (position >= offset), tf.int32)

    return {
        "input_ids": ids,
        "input_mask": tf.cast(mask, tf.int32),
        "segment_ids": segments,
    }


def has_max_context(windows: Windows, positions: Any) -> Any:
    """Returns, for tokens of a window, whether this window gives them the most context.

    The context of a token is the number of tokens of the window to its left or to its
    right, whichever is smaller, plus 0.01 times the number of tokens of the window. Of
    windows with equal context, only the first one gives the most.

    `positions` has k positions in each sequence, int32 [R, k]. The result, bool [R, k],
    is arbitrary for positions that are not in the text.

    Source: google-research/bert `run_squad._check_is_max_context`.
    """
    room, stride, num_tokens, count = (
        tf.gather(values, windows.row)[:, None, None]
        for values in (windows.room, windows.stride, windows.num_tokens, windows.count)
    )
    token = (windows.first_token[:, None] + positions - windows.offset[:, None])[
        ..., None
    ]
    # Only the windows from the first one that contains the token are compared, so the
    # memory does not grow with the square of the length of a text.
    first = tf.maximum(-(-(token - room + 1) // stride), 0)
    overlapping = tf.minimum(-(-windows.room // windows.stride), windows.count)
    number = first + tf.range(tf.reduce_max(tf.concat([overlapping, [1]], 0)))
    starts = number * stride
    length = tf.minimum(room, num_tokens - starts)
    nearest = tf.minimum(token - starts, starts + length - 1 - token)
    score = tf.cast(nearest, tf.float64) + 0.01 * tf.cast(length, tf.float64)
    score = tf.where((nearest >= 0) & (number < count), score, -1.0)
    best = first[..., 0] + tf.argmax(score, axis=-1, output_type=tf.int32)
    return best == windows.number[:, None]


def first_value(ragged: Any, rows: Any) -> Any:
    """Returns, int32, the index in `ragged.values` at which each of `rows` begins."""
    return tf.gather(tf.cast(ragged.row_splits, tf.int32), rows)
