"""`ExtractionConfig`: the settings of the feature extraction.

This module does not import TensorFlow.
"""

import dataclasses

from bert_tf.config_fields import documented, option
from bert_tf.errors import check_at_least

FORMATS = ("jsonl", "npz", "tfrecord")  # of the output


@documented
@dataclasses.dataclass(frozen=True)
class ExtractionConfig:
    """Settings of the feature extraction.

    Raises:
        InputError: `batch_size` is below 1, or `max_seq_length` below 3.

    Source: the BERT paper, section 5.3; google-research/bert `extract_features.py`.
    """

    layers: tuple[int, ...] = option(
        (-1, -2, -3, -4),
        "Indices of the Transformer blocks whose outputs are extracted: 0 is the "
        "first of L blocks, -1 the last, and -(L + 1) the embeddings.",
    )
    combine: str = option(
        "none",
        "none gives one vector per layer; concat or sum combine the layers into one "
        "vector. In the paper, concat of the last four layers is the best for named "
        "entities.",
        choices=("none", "concat", "sum"),
    )
    unit: str = option(
        "token",
        "token gives one vector per WordPiece token; word the mean over the tokens "
        "of a word.",
        choices=("token", "word"),
    )
    max_seq_length: int = option(
        128,
        "Longer lines are truncated to this number of tokens, with [CLS] and [SEP].",
    )
    batch_size: int = option(32, "Lines per batch.")

    def __post_init__(self) -> None:
        check_at_least(1, self, "batch_size")
        check_at_least(3, self, "max_seq_length")
