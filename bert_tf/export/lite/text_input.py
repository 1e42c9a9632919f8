"""The tokenizer of a TFLite file, for one text or one pair of texts."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from bert_tf.tokenization import BertTokenizer


def encode(
    tokenizer: BertTokenizer, texts: Sequence[Any], max_seq_length: int, length: int | None
) -> dict[str, Any]:
    """Returns the inputs of the model, with operations that TFLite has.

    The ids are those of `BertTokenizer.encode`, with the exceptions of
    `BertTokenizer.tokenize_in_lite`.

    Args:
        tokenizer: The tokenizer.
        texts: One or two tensors, string [1].
        max_seq_length: Longer texts or pairs are truncated to this number of tokens.
        length: The number of tokens to pad to; None for no padding.

    Returns:
        `input_ids`, `input_mask`, `segment_ids`, int32 [1, S].
    """
    ids = [tokenizer.tokenize_in_lite(text).values for text in texts]
    room = max_seq_length - 1 - len(ids)
    if len(ids) == 1:
        parts = [ids[0][:room]]
    else:
        sizes = [tf.size(each) for each in ids]
        # The same lengths as if tokens were removed one by one from the longer text; of equally
        # long texts, from the second one.
        first = tf.minimum(sizes[0], tf.maximum(room - sizes[1], room - room // 2))
        parts = [ids[0][:first], ids[1][: room - first]]
    separator = tf.constant([tokenizer.sep_id])
    pieces = [tf.constant([tokenizer.cls_id])]
    for part in parts:
        pieces += [part, separator]
    found = tf.concat(pieces, 0)
    first_size = tf.size(parts[0]) + 2
    segments = tf.cast(tf.range(tf.size(found)) >= first_size, tf.int32)
    inputs = {"input_ids": found, "input_mask": tf.ones_like(found), "segment_ids": segments}
    if length is not None:
        missing = length - tf.size(found)
        padding = {"input_ids": tokenizer.pad_id}
        inputs = {
            name: tf.concat([value, tf.fill([missing], padding.get(name, 0))], 0)
            for name, value in inputs.items()
        }
    return {name: tf.reshape(value, [1, length or -1]) for name, value in inputs.items()}
