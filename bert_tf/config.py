"""`BertConfig`: the architecture of a model, with the keys of `bert_config.json`."""

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from bert_tf.errors import (
    InputError,
    check_at_least,
    check_between,
    check_choice,
    check_positive,
    store_plain_values,
)
from bert_tf.storage.json_files import LENGTH, NUMBER, TEXT, check, parse, shorten

# Values: hidden_size, num_hidden_layers, num_attention_heads, intermediate_size.
# Sources: paper, section 3 (base, large); google-research/bert README, "Smaller BERT
# Models" (other sizes).
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
# Released files do not have these keys, so `to_dict` includes a key only if the value
# is not the default.
_NOT_RELEASED = ("attention", "layer_norm_eps")
_PROBABILITIES = ("hidden_dropout_prob", "attention_probs_dropout_prob")
_ABOVE_ZERO = ("initializer_range", "layer_norm_eps")
_SCHEMA = {
    **dict.fromkeys(_POSITIVE, LENGTH),
    **dict.fromkeys(("hidden_act", "attention"), TEXT),
    **dict.fromkeys((*_PROBABILITIES, *_ABOVE_ZERO), NUMBER),
}


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """The architecture of a BERT, with the fields and defaults of the released class.

    Attributes:
        vocab_size: Number of entries of the vocabulary, V.
        hidden_size: Width of the hidden states, H.
        num_hidden_layers: Number of Transformer blocks, L.
        num_attention_heads: Number of attention heads of each block, A. `hidden_size`
            must be a multiple of this number.
        intermediate_size: Width of the feed-forward layer, I.
        hidden_act: "gelu" (tanh form, as in the released code), "gelu_exact" (erf
            form), "relu", or the name of any other Keras activation.
        hidden_dropout_prob: Dropout rate of embeddings and block outputs, in [0, 1).
        attention_probs_dropout_prob: Dropout rate of the attention probabilities, in
            [0, 1).
        max_position_embeddings: Length of the longest sequence that the model accepts,
            in tokens.
        type_vocab_size: Number of segment types: 2 for the texts A and B of a pair. The
            default of the released class is 16, but every released file has 2.
        initializer_range: Standard deviation of the truncated normal initializer.
        attention: "bidirectional", or "causal" for the paper's left-to-right ablation.
            Released files do not have this key; the released models are bidirectional.
        layer_norm_eps: Constant that layer normalization adds to the variance. The
            released code always uses 1e-12. Models trained with other programs may need
            another value.
        extra: Keys of `bert_config.json` that are not fields, with their values
            unchanged.

    Raises:
        InputError: A value is invalid. The message names the field and the received
            value.

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
        store_plain_values(self)
        check_at_least(1, self, *_POSITIVE)
        check_between(0, math.nextafter(1, 0), self, *_PROBABILITIES)
        check_positive(self, *_ABOVE_ZERO)
        if self.hidden_size % self.num_attention_heads:
            raise InputError(
                f"hidden_size ({self.hidden_size}) must be a multiple of "
                f"num_attention_heads ({self.num_attention_heads})."
            )
        check_choice(ATTENTION_KINDS, "attention", self.attention)

    @property
    def head_size(self) -> int:
        """The width of one attention head, D = H / A."""
        return self.hidden_size // self.num_attention_heads

    @classmethod
    def named(cls, size: str, vocab_size: int, **changes: Any) -> "BertConfig":
        """Returns the config of a released model size, with 2 segment types.

        Args:
            size: A key of `SIZES`.
            vocab_size: Number of entries of the vocabulary.
            **changes: Values of other fields.

        Raises:
            InputError: `size` is not a key of `SIZES`, or a value is invalid.
        """
        check_choice(SIZES, "size", size)
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
    def from_dict(cls, values: Mapping[str, Any], source: str = "") -> "BertConfig":
        """Creates a config from the keys of a `bert_config.json`.

        Keys that are not fields are stored in `extra`. Their values may be null.

        Args:
            values: The keys and values.
            source: The file that the values were read from, for error messages.

        Raises:
            InputError: `vocab_size` is missing, or a value is invalid.
        """
        if source:
            try:
                return cls.from_dict(values)
            except InputError as error:
                raise InputError(f"{source}: {error}") from error
        if "vocab_size" not in values:
            raise InputError(
                "A BERT config needs the key vocab_size. Received the keys: "
                f"{shorten(sorted(values))}."
            )
        known = {key: value for key, value in values.items() if key in _SCHEMA}
        extra = {key: value for key, value in values.items() if key not in _SCHEMA}
        rules = {key: _SCHEMA[key] for key in known}
        return cls(**check(known, rules, "the config", required=True), extra=extra)

    def check_length(self, max_seq_length: int) -> None:
        """Checks that the model has positions for sequences of `max_seq_length` tokens.

        Raises:
            InputError: `max_seq_length` exceeds `max_position_embeddings`.
        """
        if max_seq_length > self.max_position_embeddings:
            raise InputError(
                f"max_seq_length={max_seq_length} exceeds the model's "
                f"max_position_embeddings ({self.max_position_embeddings}). Give at "
                f"most {self.max_position_embeddings}."
            )

    def to_dict(self) -> dict[str, Any]:
        """Returns the keys and values of a `bert_config.json`.

        `attention` and `layer_norm_eps`, which released files do not have, are included
        only if the value is not the default.
        """
        values = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name != "extra"
            and (
                field.name not in _NOT_RELEASED
                or getattr(self, field.name) != field.default
            )
        }
        return {**self.extra, **values}

    @classmethod
    def from_json(cls, text: str, source: str = "the config") -> "BertConfig":
        """Creates a config from the text of a `bert_config.json`.

        Args:
            text: JSON.
            source: The file that the text was read from, for error messages.

        Raises:
            InputError: The text is not a JSON object, or a value is invalid.
        """
        return cls.from_dict(check(parse(text, source), {}, source), source)

    def to_json(self) -> str:
        """Returns the text of a `bert_config.json`."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"
