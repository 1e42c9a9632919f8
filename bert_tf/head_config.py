"""`HeadConfig`: the layers between the encoder and the output layer of a task."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from bert_tf.config_fields import documented, option
from bert_tf.errors import InputError, check_between, check_choice, store_plain_values

HEADS = ("linear", "bilstm")
# For each row of table 7 of the paper, the hidden states that it uses: number 0 is the
# embeddings, and the numbers 1 to L are the outputs of the L blocks.
_LAST_FOUR = slice(-4, None)
_STATES = {
    "embeddings": slice(1),
    "second_to_last": slice(-2, -1),
    "last": slice(-1, None),
    "weighted_sum_last_four": _LAST_FOUR,
    "concat_last_four": _LAST_FOUR,
    "weighted_sum_all": slice(1, None),
}
FEATURE_LAYERS = tuple(_STATES)
# Ten times the sizes of the paper. Far larger layers would run out of memory.
_MAX_LSTM_LAYERS = 20
_MAX_LSTM_SIZE = 8192


@documented
@dataclasses.dataclass(frozen=True)
class HeadConfig:
    """The layers between the encoder and the output layer of a task.

    Raises:
        InputError: A value is invalid.

    Source: paper, section 5.3 and appendix C.1: a two-layer BiLSTM of 768 dimensions.
    """

    kind: str = option(
        "linear",
        "Layers before the output layer. linear: none. bilstm: bidirectional LSTM "
        "layers, as in tables 5 and 7 of the paper.",
        choices=HEADS,
        flag="head",
    )
    lstm_layers: int = option(2, "Number of layers of bilstm, at most 20.")
    lstm_size: int = option(
        768,
        "Number of values that a layer of bilstm computes for each token, half of "
        "them in each direction; an even number from 2 to 8,192.",
    )
    feature_layers: str | None = option(
        None,
        "The hidden states that the head uses: embeddings, second_to_last, last, "
        "weighted_sum_last_four, concat_last_four or weighted_sum_all, the rows of "
        "table 7 of the paper. A weighted_sum has one learned weight for each layer; "
        '"all" are the outputs of all blocks, without the embeddings. None for the '
        "output of the last block or, in a classifier with a linear head, for the "
        "pooled output.",
    )

    def __post_init__(self) -> None:
        store_plain_values(self)
        check_choice(HEADS, "head", self.kind)
        check_between(1, _MAX_LSTM_LAYERS, self, "lstm_layers")
        check_between(2, _MAX_LSTM_SIZE, self, "lstm_size")
        if self.lstm_size % 2:
            raise InputError(
                "lstm_size must be even, because half of the values are those of each "
                f"direction. Received: {self.lstm_size}."
            )
        if self.feature_layers is not None:
            check_choice(FEATURE_LAYERS, "feature_layers", self.feature_layers)

    @property
    def is_default(self) -> bool:
        """Whether the output layer directly follows the encoder, as in google-research/bert."""
        return self.kind == "linear" and self.feature_layers is None

    @property
    def sums_layers(self) -> bool:
        """Whether the head computes a sum of hidden states with learned weights."""
        return str(self.feature_layers).startswith("weighted_sum")

    def states(self, num_hidden_layers: int) -> tuple[int, ...]:
        """Returns the numbers of the hidden states that the head uses.

        Args:
            num_hidden_layers: The number of Transformer blocks, L.

        Returns:
            0 for the embeddings, and i for the output of block i, from 1 to L.

        Raises:
            InputError: The model has too few blocks.
        """
        name = self.feature_layers or "last"
        numbers = tuple(range(num_hidden_layers + 1)[_STATES[name]])
        # With too few blocks, the embeddings are among the last states.
        if 0 in numbers and name != "embeddings":
            raise InputError(
                f"feature_layers={name!r} needs more blocks than the "
                f"{num_hidden_layers} of this model. Give feature_layers='last'."
            )
        return numbers

    def __str__(self) -> str:
        layers = (
            f" with feature_layers={self.feature_layers}" if self.feature_layers else ""
        )
        if self.kind == "linear":
            return f"a linear head{layers}"
        return f"{self.lstm_layers} BiLSTM layers of size {self.lstm_size}{layers}"

    def to_dict(self) -> dict[str, Any]:
        """Returns the settings of this head as JSON values; {} for the default head."""
        names = ["lstm_layers", "lstm_size"] if self.kind == "bilstm" else []
        values = {"kind": self.kind, **{name: getattr(self, name) for name in names}}
        if self.feature_layers:
            values["feature_layers"] = self.feature_layers
        return {} if self.is_default else values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any] | None) -> "HeadConfig":
        """Creates a config from a result of `to_dict`.

        None and {} give the default head.

        Raises:
            InputError: A value is invalid.
        """
        return cls(**(values or {}))
