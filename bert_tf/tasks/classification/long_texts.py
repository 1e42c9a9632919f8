"""`LongTexts`: splits texts that are longer than a sequence into overlapping windows.

Imports TensorFlow inside a function, so that programs show the defaults quickly.

Shape letters: N texts, R windows of all texts.
"""

import dataclasses
from typing import Any

import numpy as np

from bert_tf.config_fields import documented, option
from bert_tf.errors import check_at_least, check_choices, store_plain_values
from bert_tf.tasks.windows import count_windows, group_and_place, stride_of

TRUNCATE, WINDOWS = "truncate", "windows"
SPECIAL_TOKENS = 2  # [CLS] window [SEP]


@documented
@dataclasses.dataclass(frozen=True)
class LongTexts:
    """The settings for texts that have more tokens than a sequence.

    Raises:
        InputError: A value is not known or is out of range.
    """

    long_texts: str = option(
        TRUNCATE,
        "truncate: only the start of a text is read. windows: a text is split into "
        "overlapping windows, and the probabilities (or scores) of all windows are "
        "averaged. For single texts only. In training, each window has the label of "
        "its text, and each text has the same weight.",
        choices=(TRUNCATE, WINDOWS),
    )
    doc_stride: int | None = option(
        None,
        "Number of tokens between the starts of successive windows, for "
        "--long_texts=windows. Default: half of a window.",
    )
    max_windows: int | None = option(
        8,
        "Training reads at most this number of windows of a text, evenly spread, for "
        "--long_texts=windows (in Python, None: all). Evaluations and predictions "
        "read all windows.",
    )

    def __post_init__(self) -> None:
        store_plain_values(self)
        check_choices(self)
        limits = [
            name
            for name in ("doc_stride", "max_windows")
            if getattr(self, name) is not None
        ]
        check_at_least(1, self, *limits)

    @property
    def in_windows(self) -> bool:
        """Whether long texts are split into windows."""
        return self.long_texts == WINDOWS

    @property
    def facts(self) -> dict[str, Any]:
        """The settings for `ClassificationFacts`; {} if long texts are truncated."""
        return dataclasses.asdict(self) if self.in_windows else {}

    def stride(self, room: int) -> int:
        """Returns the number of tokens between the starts of successive windows.

        Args:
            room: The largest number of tokens of a window, without [CLS] and [SEP].
        """
        return min(room, self.doc_stride or stride_of(room))

    def split(self, ids: Any, room: int) -> tuple[Any, np.ndarray]:
        """Splits texts into windows; a text without tokens gives one window.

        Of W windows of a text, at most M = `max_windows` are used: those with the
        numbers floor(i (W - 1) / (M - 1)) for i from 0 to M - 1 if W > M; with M = 1
        the first one.

        Args:
            ids: The tokens of N texts, ragged int32 [N, None].
            room: The largest number of tokens of a window, without [CLS] and [SEP].

        Returns:
            The tokens of the windows, ragged int32 [R, None], and the number of windows
            of each text, int [N].
        """
        import tensorflow as tf

        splits = ids.row_splits.numpy()
        stride = self.stride(room)
        total = np.maximum(count_windows(np.diff(splits), np.array(room), stride), 1)
        used = np.minimum(total, self.max_windows or total)  # [N]

        # The text of each used window, and its number among those of the text: [R]
        text, index = group_and_place(used)
        number = index * (total[text] - 1) // np.maximum(used[text] - 1, 1)

        first = splits[text] + number * stride
        tokens = tf.ragged.range(first, np.minimum(first + room, splits[text + 1]))
        return tf.gather(ids.values, tokens), used
