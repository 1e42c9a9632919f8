"""`TextInputs`: a Keras layer that converts texts to the inputs of the models."""

from typing import Any

import keras

from bert_tf.errors import InputError, plain
from bert_tf.tokenization import BertTokenizer

# The arguments of the tokenizer, and its attributes of the same names.
_OF_TOKENIZER = ("vocabulary", "do_lower_case", "special_tokens_in_text")


@keras.saving.register_keras_serializable("bert_tf")
class TextInputs(keras.layers.Layer):
    """Tokenizes texts, or pairs of texts, and packs them into inputs of the models.

    A model that begins with this layer takes texts in `fit` and `predict`, and its
    `.keras` file and its SavedModel contain the tokenizer.

    Example:
        texts = keras.Input(shape=(), dtype="string")
        inputs = bert_tf.TextInputs(checkpoint.tokenizer, seq_length=128)(texts)
        outputs = checkpoint.model(bert_tf.BertClassifier, num_labels=2)(inputs)
        model = keras.Model(texts, outputs["logits"])

    Args:
        tokenizer: The tokenizer.
        seq_length: Length S to which examples are truncated and padded.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name`.

    Call arguments:
        texts: string [B]; for pairs, a tuple or list of two tensors string [B].

    Returns:
        `input_ids`, `input_mask` and `segment_ids`, int32 [B, S], as
        `BertTokenizer.encode` returns them.

    With JAX or PyTorch, a model cannot take strings. Call the layer outside of the
    model, for example in `tf.data.Dataset.map`, and call the model on the result.

    Raises:
        InputError: `seq_length` is too short for the special tokens, or the texts have
            another shape.
    """

    def __init__(
        self, tokenizer: BertTokenizer, seq_length: int = 128, **kwargs: Any
    ) -> None:
        super().__init__(**{"trainable": False, "dtype": "int32", **kwargs})
        # Keras would convert texts to numbers.
        self._convert_input_args = False
        self._allow_non_tensor_positional_args = True
        self.tokenizer = tokenizer
        self.seq_length = plain(seq_length)

    def call(self, texts: Any) -> dict[str, Any]:
        """Converts texts or pairs of texts to the inputs of the models."""
        pair = texts if _is_pair(texts) else (texts, None)
        return self.tokenizer.encode(*pair, seq_length=self.seq_length)

    def compute_output_spec(self, texts: Any) -> dict[str, Any]:
        """Returns the names, shapes and dtypes of the tensors that `call` returns."""
        shape = (texts[0] if _is_pair(texts) else texts).shape
        if len(shape) != 1:
            raise InputError(
                "TextInputs takes texts of shape [B], as of "
                f"keras.Input(shape=(), dtype='string'). Received: {shape}."
            )
        return {
            name: keras.KerasTensor((shape[0], self.seq_length), dtype="int32")
            for name in ("input_ids", "input_mask", "segment_ids")
        }

    def get_config(self) -> dict[str, Any]:
        """Returns the vocabulary and the settings, to store them in `.keras` files."""
        return {
            **super().get_config(),
            **{name: getattr(self.tokenizer, name) for name in _OF_TOKENIZER},
            "seq_length": self.seq_length,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "TextInputs":
        """Builds the layer from a result of `get_config`."""
        settings = [config.pop(name) for name in _OF_TOKENIZER]
        return cls(BertTokenizer(*settings), **config)


def _is_pair(texts: Any) -> bool:
    """Whether `texts` is a pair of text tensors, and not a list of two strings."""
    is_sequence = isinstance(texts, (tuple, list)) and len(texts) == 2
    return is_sequence and not isinstance(texts[0], (str, bytes))
