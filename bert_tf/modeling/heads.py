"""The heads: output layers that map the hidden states of the encoder to logits."""

from typing import Any

import keras
from keras import ops

from bert_tf.config import BertConfig
from bert_tf.modeling import fused
from bert_tf.modeling.initial_weights import InitialWeights
from bert_tf.modeling.layers import (
    Dense,
    LayerNorm,
    Variables,
    flatten_to_rows,
    restore_shape,
    variable_tensor,
    with_name_prefix,
)
from bert_tf.modeling.transformer import ConfiguredLayer


@keras.saving.register_keras_serializable("bert_tf")
class MaskedLMHead(ConfiguredLayer):
    """Computes the logits of all vocabulary entries at given positions of the sequences.

    Args:
        config: The architecture.
        initial: Initializers of the model. If None, the layer creates new initializers.

    Call arguments:
        sequence_output: Float tensor [B, S, H].
        word_embeddings: Float tensor [V, H], the word embeddings of the encoder. This
            head uses them as its output weights.
        positions: Positions of the predicted tokens, int32 [B, P]; None for all
            positions (P = S).
        training: Whether a gradient will be computed.

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
        with keras.name_scope(self.name, caller=self):
            self.dense = Dense(
                size, size, config.hidden_act, initial, dtype=dtype, name="dense"
            )
            self.norm = LayerNorm(size, config.layer_norm_eps, dtype=dtype, name="norm")
        self.output_bias = self.add_weight(
            (config.vocab_size,), "zeros", name="output_bias", autocast=False
        )
        self.build((None, None, size))

    @property
    def output_shape(self) -> tuple[int | None, ...]:
        """Shape of the output, which `summary` prints."""
        return (None, None, self.config.vocab_size)

    def call(
        self,
        sequence_output: Any,
        word_embeddings: Any,
        positions: Any = None,
        training: bool = False,
    ) -> Any:
        batch, length = ops.shape(sequence_output)[:2]
        tokens = flatten_to_rows(sequence_output)
        if positions is not None:
            starts = ops.expand_dims(ops.arange(batch, dtype="int32"), 1) * length
            # Not `ops.add`: if B equals P, it takes `starts`, [B, 1], for a bias [P].
            tokens = ops.take(tokens, ops.reshape(positions + starts, (-1,)), axis=0)
        hidden = self.norm(self.dense(tokens))
        table = ops.cast(word_embeddings, hidden.dtype)
        bias = ops.cast(variable_tensor(self.output_bias), "float32")
        logits = fused.tied_logits(hidden, table, bias, training)
        return restore_shape(
            logits, sequence_output if positions is None else positions
        )

    def variables_by_name(self) -> Variables:
        """Returns the layer's variables by name.

        Names and order are as in google-research/bert.
        """
        return {
            **with_name_prefix("transform/dense", self.dense.variables_by_name()),
            **with_name_prefix("transform/LayerNorm", self.norm.variables_by_name()),
            "output_bias": self.output_bias,
        }


@keras.saving.register_keras_serializable("bert_tf")
class OutputHead(keras.layers.Layer):
    """Computes `x @ output_weights.T + output_bias` in float32, for all tasks except masked LM.

    Args:
        inputs: Width of the input, H.
        outputs: Number of logits, N.
        initial: Initializers of the model. If None, the layer creates new initializers
            with standard deviation 0.02.

    Call arguments:
        x: Float tensor [M, H] with any number of rows M.

    Returns:
        float32 [M, N].

    Source: google-research/bert `run_classifier.create_model`.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        initial: InitialWeights | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.inputs, self.outputs = inputs, outputs
        self.output_weights = self.add_weight(
            (outputs, inputs),
            (initial or InitialWeights(0.02)).next(),
            name="output_weights",
            autocast=False,
        )
        self.output_bias = self.add_weight(
            (outputs,), "zeros", name="output_bias", autocast=False
        )
        self.build((None, inputs))

    @property
    def output_shape(self) -> tuple[int | None, ...]:
        """Shape of the output, which `summary` prints."""
        return (None, self.outputs)

    def call(self, x: Any) -> Any:
        products = ops.matmul(
            ops.cast(x, "float32"), ops.transpose(self.output_weights)
        )
        return ops.add(products, self.output_bias)

    def variables_by_name(self) -> Variables:
        """Returns the layer's variables by name.

        Names and order are as in google-research/bert.
        """
        return {"output_weights": self.output_weights, "output_bias": self.output_bias}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "inputs": self.inputs, "outputs": self.outputs}
