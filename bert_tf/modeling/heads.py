"""What stands on top of the encoder: hidden states -> logits.

Imports layer 0, keras, `randomness` and `layers`.
"""

from typing import Any

import keras
from keras import ops

from bert_tf.config import BertConfig
from bert_tf.modeling import fused
from bert_tf.modeling.layers import Dense, LayerNorm, Variables, flat, under, value
from bert_tf.modeling.randomness import InitialWeights
from bert_tf.modeling.transformer import Configured


@keras.saving.register_keras_serializable("bert_tf")
class MaskedLMHead(Configured):
    """Logits over the vocabulary at chosen positions, with the word embeddings as weights.

    Args:
        config: The architecture.
        initial: Initializers of the model; a layer alone gets its own.

    Call arguments:
        sequence_output: Float tensor [B, S, H].
        word_embeddings: Float tensor [V, H], the table of the encoder's `Embeddings`.
        positions: int32 [B, P], or None for all positions (P = S).
        training: Whether there will be a gradient.

    Returns:
        float32 [B, P, V].

    Source: google-research/bert `run_pretraining.get_masked_lm_output`.
    """

    def __init__(
        self, config: BertConfig, initial: InitialWeights | None = None, **kwargs: Any
    ) -> None:
        super().__init__(config, **kwargs)
        size, dtype = config.hidden_size, self.dtype_policy
        initial = initial or InitialWeights(config.initializer_range)
        self.dense = Dense(size, size, config.hidden_act, initial, dtype=dtype, name="dense")
        self.norm = LayerNorm(size, config.layer_norm_eps, dtype=dtype, name="norm")
        self.output_bias = self.add_weight(
            (config.vocab_size,), "zeros", name="output_bias", autocast=False
        )
        self.built = True

    def call(
        self,
        sequence_output: Any,
        word_embeddings: Any,
        positions: Any = None,
        training: bool = False,
    ) -> Any:
        batch, length = ops.shape(sequence_output)[:2]
        tokens = flat(sequence_output)
        if positions is not None:
            starts = ops.expand_dims(ops.arange(batch, dtype="int32"), 1) * length
            length = ops.shape(positions)[1]
            tokens = ops.take(tokens, ops.reshape(ops.add(positions, starts), (-1,)), axis=0)
        hidden = self.norm(self.dense(tokens))
        table = ops.cast(word_embeddings, hidden.dtype)
        logits = fused.tied_logits(hidden, table, value(self.output_bias), training)
        return ops.reshape(logits, (-1, length, self.config.vocab_size))

    def variables_by_name(self) -> Variables:
        """The layer's variables by their released names, in released order."""
        return {
            **under("transform/dense", self.dense.variables_by_name()),
            **under("transform/LayerNorm", self.norm.variables_by_name()),
            "output_bias": self.output_bias,
        }


@keras.saving.register_keras_serializable("bert_tf")
class OutputHead(keras.layers.Layer):
    """`x @ output_weights.T + output_bias` in float32: every head but the masked LM's.

    Args:
        inputs: Width of the input, H.
        outputs: Number of logits, N.
        initial: Initializers of the model; a layer alone gets its own, of standard deviation 0.02.

    Call arguments:
        x: Float tensor [M, H].

    Returns:
        float32 [M, N].

    Source: google-research/bert `run_classifier.create_model`.
    """

    def __init__(
        self, inputs: int, outputs: int, initial: InitialWeights | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.inputs, self.outputs = inputs, outputs
        self.output_weights = self.add_weight(
            (outputs, inputs),
            (initial or InitialWeights(0.02)).next(),
            name="output_weights",
            autocast=False,
        )
        self.output_bias = self.add_weight((outputs,), "zeros", name="output_bias", autocast=False)
        self.built = True

    def call(self, x: Any) -> Any:
        products = ops.matmul(ops.cast(x, "float32"), ops.transpose(self.output_weights))
        return ops.add(products, self.output_bias)

    def variables_by_name(self) -> Variables:
        """The layer's variables by their released names, in released order."""
        return {"output_weights": self.output_weights, "output_bias": self.output_bias}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "inputs": self.inputs, "outputs": self.outputs}
