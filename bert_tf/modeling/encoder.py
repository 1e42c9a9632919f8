"""`BertEncoder`: ids -> hidden states.

Imports layer 0, keras, `randomness`, `layers` and `transformer`.
"""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from bert_tf.config import BertConfig
from bert_tf.errors import InputError
from bert_tf.modeling.layers import Dense, LayerNorm, Variables, like, under
from bert_tf.modeling.randomness import Dropout, DropoutSeeds, InitialWeights
from bert_tf.modeling.transformer import Configured, TransformerBlock, attention_bias


@keras.saving.register_keras_serializable("bert_tf")
class Embeddings(Configured):
    """Sum of word, segment and position embeddings, normalized, with dropout.

    Args:
        config: The architecture.
        initial: Initializers of the model; a layer alone gets its own.
        dropout_seeds: Dropout seeds of the model; a layer alone gets its own.

    Call arguments:
        input_ids: int32 [B, S].
        segment_ids: int32 [B, S].
        training: Whether dropout is on.

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
            return self.add_weight(shape, initial.next(), name=name, autocast=False)

        self.word_embeddings = table(config.vocab_size, "word_embeddings")
        self.token_type_embeddings = table(config.type_vocab_size, "token_type_embeddings")
        self.position_embeddings = table(config.max_position_embeddings, "position_embeddings")
        self.norm = LayerNorm(
            config.hidden_size, config.layer_norm_eps, dtype=self.dtype_policy, name="norm"
        )
        self.dropout = Dropout(
            config.hidden_dropout_prob, dropout_seeds, dtype=self.dtype_policy, name="dropout"
        )
        self.built = True

    def call(self, input_ids: Any, segment_ids: Any, training: bool = False) -> Any:
        length = input_ids.shape[1]
        longest = self.config.max_position_embeddings
        if length is not None and length > longest:
            raise InputError(
                f"The sequences have {length} tokens; this model takes at most {longest} "
                "(max_position_embeddings). Cut them, or use a model with more positions."
            )
        words = ops.take(self.word_embeddings, input_ids, axis=0)
        # As the released code does it: a product is faster than a lookup in so small a table.
        kinds = ops.one_hot(ops.reshape(segment_ids, (-1,)), self.config.type_vocab_size)
        segments = ops.matmul(kinds, self.token_type_embeddings)
        positions = self.position_embeddings[: ops.shape(input_ids)[1]]
        x = ops.add(ops.add(words, like(segments, input_ids)), ops.expand_dims(positions, 0))
        return self.dropout(self.norm(x), training=training)

    def variables_by_name(self) -> Variables:
        """The layer's variables by their released names, in released order."""
        return {
            "word_embeddings": self.word_embeddings,
            "token_type_embeddings": self.token_type_embeddings,
            "position_embeddings": self.position_embeddings,
            **under("LayerNorm", self.norm.variables_by_name()),
        }


@keras.saving.register_keras_serializable("bert_tf")
class BertEncoder(keras.Model):
    """BERT without a head: ids -> hidden states.

    Variables are made at once, float32 whatever the dtype policy. Initial weights are a truncated
    normal of `config.initializer_range` cut at two standard deviations, biases 0, gammas 1.

    Args:
        config: The architecture.
        seed: Fixes the initial weights and the state of `dropout_seeds`. None draws them from
            Python's `random`, which `keras.utils.set_random_seed` seeds.
        dropout_seeds: Those of the model this encoder is part of; alone it makes its own.
        recompute: Whether training computes each block a second time on the way back instead of
            keeping its activations: a third more work for a fraction of the memory.
        dtype: "float32", "mixed_bfloat16", "mixed_float16" or another Keras dtype policy.

    Call arguments:
        inputs: Dict of int32 tensors [B, S]: `input_ids`, `input_mask` (1 = a token, 0 = padding)
            and `segment_ids`. Other keys are ignored. B and S may be dynamic.
        training: Whether dropout is on.
        attention_maps: Whether to return `attention_maps` too.

    Returns:
        Dict of
            sequence_output: [B, S, H], the last block's output;
            pooled_output: [B, H], a dense tanh layer over the first token;
            embedding_output: [B, S, H], what the first block is given;
            encoder_outputs: list of L tensors [B, S, H], each block's output;
            attention_maps: list of L tensors [B, A, S, S], the probabilities, when asked for.

    Source: paper section 3; google-research/bert `modeling.BertModel`.
    """

    def __init__(
        self,
        config: BertConfig,
        name: str = "bert",
        *,
        seed: int | None = None,
        initial: InitialWeights | None = None,
        dropout_seeds: DropoutSeeds | None = None,
        recompute: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.config, self.recompute = config, recompute
        self.dropout_seeds = dropout_seeds or DropoutSeeds(seed)
        initial = initial or InitialWeights(config.initializer_range, seed)
        dtype = self.dtype_policy
        parts = (initial, self.dropout_seeds)
        self.embeddings = Embeddings(config, *parts, dtype=dtype, name="embeddings")
        self.blocks = [
            TransformerBlock(config, *parts, dtype=dtype, name=f"layer_{i}")
            for i in range(config.num_hidden_layers)
        ]
        size = config.hidden_size
        self.pooler = Dense(size, size, "tanh", initial, dtype=dtype, name="pooler")
        self.built = True

    def call(
        self, inputs: Mapping[str, Any], training: bool = False, attention_maps: bool = False
    ) -> dict[str, Any]:
        ids = inputs["input_ids"]
        hidden = self.embeddings(ids, inputs["segment_ids"], training=training)
        bias = attention_bias(inputs["input_mask"], self.config.attention, self.compute_dtype)
        outputs: dict[str, Any] = {"embedding_output": hidden}
        states, maps = [], []
        for block in self.blocks:
            if training and self.recompute and not attention_maps:
                hidden = self._recomputed(block, hidden, bias)
            else:
                hidden, probabilities = block(hidden, bias, training=training)
                maps.append(probabilities)
            states.append(hidden)
        outputs["encoder_outputs"] = states
        outputs["sequence_output"] = hidden
        outputs["pooled_output"] = self.pooler(hidden[:, 0])
        if attention_maps:
            outputs["attention_maps"] = maps
        return outputs

    def _recomputed(self, block: TransformerBlock, hidden: Any, bias: Any) -> Any:
        seed = self.dropout_seeds.next()

        def call(hidden: Any, bias: Any) -> Any:
            # The second time is when the gradient is taken, and has to find the same masks. They
            # wait for the input: masks of all blocks made at once would take back the memory.
            arrived = ops.cast(ops.isnan(hidden[0, 0, 0]), "int32")
            with self.dropout_seeds.use(ops.add(seed, arrived)):
                return block(hidden, bias, training=True)[0]

        return keras.remat(call)(hidden, bias)

    def variables_by_name(self) -> Variables:
        """All weights by their released names, in released order."""
        named = under("bert/embeddings", self.embeddings.variables_by_name())
        for i, block in enumerate(self.blocks):
            named |= under(f"bert/encoder/layer_{i}", block.variables_by_name())
        return named | under("bert/pooler/dense", self.pooler.variables_by_name())

    def get_config(self) -> dict[str, Any]:
        return {
            "config": self.config.to_dict(),
            "name": self.name,
            "recompute": self.recompute,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "BertEncoder":
        return cls(**{**config, "config": BertConfig.from_dict(config["config"])})
