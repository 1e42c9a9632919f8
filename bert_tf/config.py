"""`BertConfig`: the architecture, as `bert_config.json` says it.

Imports the standard library and `errors` only.
"""

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from bert_tf.errors import InputError

# hidden_size, num_hidden_layers, num_attention_heads, intermediate_size. Base and large: paper,
# section 3; the smaller ones: google-research/bert README, "Smaller BERT Models".
SIZES: dict[str, tuple[int, int, int, int]] = {
    "tiny": (128, 2, 2, 512),
    "mini": (256, 4, 4, 1024),
    "small": (512, 4, 8, 2048),
    "medium": (512, 8, 8, 2048),
    "base": (768, 12, 12, 3072),
    "large": (1024, 24, 16, 4096),
}
ATTENTION_KINDS = ("bidirectional", "causal")
_POSITIVE = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
)
# Ours, or others': released files lack them, so they are written only where they say something.
_NOT_RELEASED = ("attention", "layer_norm_eps")
_PROBABILITIES = ("hidden_dropout_prob", "attention_probs_dropout_prob")


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """The architecture of a BERT, under the names and defaults of the released class.

    Attributes:
        vocab_size: Number of entries of the vocabulary, V.
        hidden_size: Width of the hidden states, H.
        num_hidden_layers: Number of Transformer blocks, L.
        num_attention_heads: Heads a block, A; must divide `hidden_size`.
        intermediate_size: Width of the feed-forward layer, I.
        hidden_act: "gelu" (tanh form, as in the released code), "gelu_exact" (erf), "relu", or
            any other activation that Keras knows.
        hidden_dropout_prob: Dropout of embeddings and block outputs, in [0, 1).
        attention_probs_dropout_prob: Dropout of the attention probabilities, in [0, 1).
        max_position_embeddings: Longest sequence the model takes, in tokens.
        type_vocab_size: Number of segments. The released class defaults to 16, every released
            file says 2.
        initializer_range: Standard deviation of the truncated normal initializer.
        attention: "bidirectional", or "causal" for the paper's left-to-right ablation. Ours:
            released files lack the key and mean "bidirectional".
        layer_norm_eps: What layer normalization adds to the variance. The released code has 1e-12
            and no such key; models trained by others may bring another value.
        extra: Keys of a foreign file that we do not use, kept as they are.

    Raises:
        InputError: A size that cannot be, named with the value received.

    Source: google-research/bert `modeling.BertConfig`.
    """

    vocab_size: int
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 16
    initializer_range: float = 0.02
    attention: str = "bidirectional"
    layer_norm_eps: float = 1e-12
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{name} must be a positive integer. Received: {value!r}.")
        for name in _PROBABILITIES:
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not 0 <= value < 1:
                raise InputError(f"{name} must be in [0, 1). Received: {value!r}.")
        for name in ("initializer_range", "layer_norm_eps"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not 0 < value < math.inf:
                raise InputError(f"{name} must be above 0. Received: {value!r}.")
        if not isinstance(self.hidden_act, str):
            raise InputError(
                'hidden_act must name an activation, such as "gelu". '
                f"Received: {self.hidden_act!r}."
            )
        if self.hidden_size % self.num_attention_heads:
            raise InputError(
                f"hidden_size ({self.hidden_size}) must be a multiple of num_attention_heads "
                f"({self.num_attention_heads})."
            )
        if self.attention not in ATTENTION_KINDS:
            raise InputError(
                f"attention must be one of {ATTENTION_KINDS}. Received: {self.attention!r}."
            )

    @property
    def head_size(self) -> int:
        """Width of one attention head, D = H / A."""
        return self.hidden_size // self.num_attention_heads

    @classmethod
    def named(cls, size: str, vocab_size: int, **changes: Any) -> "BertConfig":
        """One of the released sizes, with the released files' two segments.

        Args:
            size: A key of `SIZES`.
            vocab_size: Number of entries of the vocabulary.
            **changes: Any other field.

        Raises:
            InputError: The size has no such name.
        """
        if size not in SIZES:
            raise InputError(f"There is no size {size!r}. Take one of {', '.join(SIZES)}.")
        hidden, layers, heads, intermediate = SIZES[size]
        fields = {
            "hidden_size": hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "intermediate_size": intermediate,
            "type_vocab_size": 2,
        }
        return cls(vocab_size=vocab_size, **{**fields, **changes})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "BertConfig":
        """From the keys of a `bert_config.json`; unknown keys are kept in `extra`.

        Raises:
            InputError: `vocab_size` is missing, or a value cannot be.
        """
        if "vocab_size" not in values:
            raise InputError(
                f"A BERT config needs the key vocab_size. Received the keys: {sorted(values)}."
            )
        names = {field.name for field in dataclasses.fields(cls)} - {"extra"}
        known = {key: value for key, value in values.items() if key in names}
        extra = {key: value for key, value in values.items() if key not in names}
        return cls(**known, extra=extra)

    def to_dict(self) -> dict[str, Any]:
        """The keys of a `bert_config.json`; those that released files lack where they differ."""
        values = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name != "extra"
            and (field.name not in _NOT_RELEASED or getattr(self, field.name) != field.default)
        }
        return {**self.extra, **values}

    @classmethod
    def from_json(cls, text: str, source: str = "the config") -> "BertConfig":
        """From the text of a `bert_config.json`.

        Args:
            text: JSON.
            source: Where the text is from, for the messages.

        Raises:
            InputError: Not a JSON object, or its values cannot be.
        """
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            raise InputError(f"{source} is not JSON: {error}.") from error
        if not isinstance(values, dict):
            raise InputError(f"{source} must hold one JSON object with the keys of a BERT config.")
        try:
            return cls.from_dict(values)
        except InputError as error:
            raise InputError(f"{source}: {error}") from error

    def to_json(self) -> str:
        """The text of a `bert_config.json`."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"
