"""`ExtractionConfig`: the settings of the feature extraction.

Does not import TensorFlow.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import ClassVar

from bert_tf.errors import check_at_least

FORMATS = ("jsonl", "npz", "tfrecord")  # of the output


@dataclasses.dataclass(frozen=True)
class ExtractionConfig:
    """Settings of the feature extraction.

    Attributes:
        layers: Indices of the Transformer blocks whose outputs are extracted: 0 is the
            first of L blocks, -1 the last, and -(L + 1) the embeddings.
        combine: none gives one vector per layer; concat or sum combine the layers into
            one vector. In the paper, concat of the last four layers is the best for
            named entities.
        unit: token gives one vector per WordPiece token; word the mean over the tokens
            of a word.
        max_seq_length: Longer lines are truncated to this number of tokens, with [CLS]
            and [SEP].
        batch_size: Lines per batch.

    Raises:
        InputError: `batch_size` is below 1, or `max_seq_length` below 3.

    Source: paper, section 5.3; google-research/bert `extract_features.py`.
    """

    CHOICES: ClassVar[Mapping[str, Sequence[str]]] = {
        "combine": ("none", "concat", "sum"),
        "unit": ("token", "word"),
    }
    layers: tuple[int, ...] = (-1, -2, -3, -4)
    combine: str = "none"
    unit: str = "token"
    max_seq_length: int = 128
    batch_size: int = 32

    def __post_init__(self) -> None:
        check_at_least(1, self, "batch_size")
        check_at_least(3, self, "max_seq_length")
