"""Converts contexts and choices to the records of the model: C sequences in each record.

Shape letters: N examples, C choices, S sequence length, R sequences of all examples.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bert_tf.tasks.choice.examples import ChoiceExample
from bert_tf.tasks.task import Encoded

if TYPE_CHECKING:
    from bert_tf.tokenization import BertTokenizer

_SPECIAL_TOKENS = 3  # [CLS] A [SEP] B [SEP]


def encode(
    examples: Sequence[ChoiceExample],
    tokenizer: "BertTokenizer",
    max_seq_length: int,
    num_choices: int,
) -> Encoded:
    """Converts N examples to N records; a missing label becomes 0.

    Each sequence is [CLS] context [SEP] choice [SEP]. If a sequence is too long, tokens are removed
    from the end of the longer text. The sequences of missing choices have no tokens.

    Args:
        examples: N examples.
        tokenizer: Converts text to ids.
        max_seq_length: S, at least 3.
        num_choices: C, at least the number of choices of each example.

    Returns:
        The columns of `features.CHOICE`, and two counts: "truncated" is the number of examples with
        a sequence that is too long, and "with an empty text" is the number of examples in which a
        text has no token.
    """
    import tensorflow as tf

    per_example = np.array([len(example.choices) for example in examples], np.int64)
    # [R], the example of each sequence
    row: np.ndarray = np.repeat(np.arange(len(examples)), per_example)
    contexts = tokenizer.tokenize([example.context for example in examples])
    choices = tokenizer.tokenize([text for example in examples for text in example.choices])
    packed = tokenizer.pack(tf.gather(contexts, row), choices, max_seq_length)
    exists = np.arange(num_choices) < per_example[:, None]
    lengths_a, lengths_b = contexts.row_lengths().numpy()[row], choices.row_lengths().numpy()
    is_cut = lengths_a + lengths_b > max_seq_length - _SPECIAL_TOKENS
    is_empty = (lengths_a == 0) | (lengths_b == 0)
    columns = {
        "input_ids": _by_choice(packed["input_ids"].numpy(), exists, tokenizer.pad_id, np.int32),
        "input_mask": _by_choice(packed["input_mask"].numpy(), exists, 0, np.uint8),
        "segment_ids": _by_choice(packed["segment_ids"].numpy(), exists, 0, np.uint8),
        "num_choices": per_example,
        "label_ids": np.array([example.label or 0 for example in examples], np.int64),
    }
    counts = {
        "truncated": len(np.unique(row[is_cut])),
        "with an empty text": len(np.unique(row[is_empty])),
    }
    return Encoded(columns, counts=counts)


def _by_choice(packed: np.ndarray, exists: np.ndarray, padding: int, dtype: type) -> np.ndarray:
    """Returns the sequences [R, S] as an array [N, C, S], with padding for missing choices.

    Args:
        packed: int [R, S], in the order of the examples and of their choices.
        exists: bool [N, C], with R true values.
        padding: The value for missing choices.
        dtype: The dtype of the result.
    """
    columns: np.ndarray = np.full([*exists.shape, packed.shape[1]], padding, dtype)
    columns[exists] = packed
    return columns
