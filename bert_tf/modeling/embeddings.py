"""`Embeddings`: the sum of word, segment and position embeddings."""

from typing import Any

import keras
from keras import ops

from bert_tf.config import BertConfig
from bert_tf.modeling.initial_weights import InitialWeights
from bert_tf.modeling.layers import (
    ConfiguredLayer,
    Dropout,
    DropoutSeeds,
    LayerNorm,
    Variables,
    restore_shape,
    variables_of_layers,
)


@keras.saving.register_keras_serializable("bert_tf")
class Embeddings(ConfiguredLayer):
    """Sums word, segment and position embeddings, and applies layer norm and dropout.

    Call arguments:
        input_ids: Token ids, int32 [B, S].
        segment_ids: Segment of each token (0 or 1 in released models), int32 [B, S].

    Returns:
        Float tensor [B, S, H].

    Source: google-research/bert `modeling.embedding_postprocessor`.
    """

    def __init__(
        self,
        config: BertConfig,
        initial: InitialWeights | None = None,
        dropout_seeds: DropoutSeeds | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(config, **kwargs)
        initial = initial or InitialWeights(config.initializer_range)

        def table(rows: int, name: str) -> keras.Variable:
            shape = (rows, config.hidden_size)
            return initial.add_weight(self, shape, name=name, autocast=False)

        # These lines draw random seeds: their order determines the initial weights.
        self.word_embeddings = table(config.vocab_size, "word_embeddings")
        self.token_type_embeddings = table(
            config.type_vocab_size, "token_type_embeddings"
        )
        self.position_embeddings = table(
            config.max_position_embeddings, "position_embeddings"
        )
        size = config.hidden_size
        dtype = self.dtype_policy
        rate = config.hidden_dropout_prob
        with keras.name_scope(self.name, caller=self):
            self.norm = LayerNorm(size, config.layer_norm_eps, dtype=dtype, name="norm")
            self.dropout = Dropout(rate, dropout_seeds, dtype=dtype, name="dropout")
        self.build((None, None))

    def call(self, input_ids: Any, segment_ids: Any, training: bool = False) -> Any:
        words = ops.take(self.word_embeddings, input_ids, axis=0)  # [B, S, H]

        # As in google-research/bert: for a table with few rows, a product is faster
        # than a lookup.
        segment_rows = ops.reshape(segment_ids, (-1,))  # [B*S]
        one_hot = ops.one_hot(segment_rows, self.config.type_vocab_size)
        segments = ops.matmul(one_hot, self.token_type_embeddings)  # [B*S, H]
        segments = restore_shape(segments, input_ids)  # [B, S, H]

        positions = self.position_embeddings[: ops.shape(input_ids)[1]]  # [S, H]

        # The sum is computed in float32, also if the variables are not float32.
        words, segments, positions = (
            ops.cast(x, "float32") for x in (words, segments, positions)
        )
        x = words + segments + ops.expand_dims(positions, 0)
        return self.dropout(self.norm(x), training=training)

    def variables_by_name(self) -> Variables:
        """Returns the variables by name; names and order are as in google-research/bert."""
        return {
            "word_embeddings": self.word_embeddings,
            "token_type_embeddings": self.token_type_embeddings,
            "position_embeddings": self.position_embeddings,
            **variables_of_layers({"LayerNorm": self.norm}),
        }
