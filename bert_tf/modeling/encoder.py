"""`BertEncoder` maps token ids to hidden states and a pooled output."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
from keras import ops

from bert_tf.backend import check_dynamic_shapes
from bert_tf.config import BertConfig
from bert_tf.modeling.attention import TokenRows, attention_bias
from bert_tf.modeling.base import BertBaseModel
from bert_tf.modeling.embeddings import Embeddings
from bert_tf.modeling.initial_weights import InitialWeights
from bert_tf.modeling.inputs import complete_inputs
from bert_tf.modeling.layers import (
    Dense,
    DropoutSeeds,
    Shape,
    Variables,
    variable_tensor,
    variables_of_layers,
)
from bert_tf.modeling.transformer_block import TransformerBlock


@keras.saving.register_keras_serializable("bert_tf")
class BertEncoder(BertBaseModel):
    """BERT without a head: maps token ids to hidden states.

    The constructor creates all variables. The initial values of kernels and embeddings
    are drawn from a normal distribution with standard deviation
    `config.initializer_range`, truncated at two standard deviations. Biases and betas
    start at 0, gammas at 1.

    Args:
        config: The architecture.
        name: The name of the Keras model.
        seed: Integer that determines the initial weights and the state of
            `dropout_seeds`. If None, Python's `random` determines both;
            `keras.utils.set_random_seed` seeds `random`.
        initial: Initializers of the model that contains this encoder. If None, the
            encoder creates new initializers from `seed`.
        dropout_seeds: Dropout seeds of the model that contains this encoder. If None,
            the encoder creates new dropout seeds from `seed`.
        recompute: Whether training recomputes the activations of each block in the
            backward pass instead of keeping the activations (gradient checkpointing).
            Recomputation adds about a third to the computation and keeps only a
            fraction of the activations.
        dtype: A Keras dtype policy. "float32", "mixed_bfloat16" and "mixed_float16"
            keep the variables in float32. "bfloat16" also stores the variables in
            bfloat16, which halves their memory and is meant for inference: small
            updates would be rounded away.

    Call arguments:
        inputs: Dict of int32 tensors [B, S]: `input_ids`, `input_mask` (1 = token, 0 =
            padding) and `segment_ids`. Without `input_mask`, tokens whose id is 0 are
            padding; without `segment_ids`, all segment ids are 0. Tensors of other
            integer or float types are cast to int32. Other keys are ignored. B and S
            may be dynamic, and B may be 0.
        training: Whether dropout is active.
        attention_maps: Whether to return also the attention probabilities of each
            block.

    Returns:
        Dict with
            sequence_output: [B, S, H], the output of the last block;
            pooled_output: [B, H], the output of a dense tanh layer, whose input is the
                last block's output for the first token;
            embedding_output: [B, S, H], the input of the first block;
            encoder_outputs: list of L tensors [B, S, H], the output of each block;
            attention_maps: list of L tensors [B, A, S, S], the attention probabilities;
                present only if `attention_maps` is true.

    Attributes:
        blocks: List of the L blocks, which are also the attributes `layer_0`, `layer_1`
            etc.
        skip_padding: Whether the blocks skip padding and compute tokens only; default
            False. If True, the outputs at padding are 0 instead of the values of
            google-research/bert; for a sequence without tokens, the input of the pooler
            is 0. This needs dynamic shapes, which XLA, JAX, TPUs and TFLite do not
            support. Ignored with `attention_maps`. If a model with a head has already
            trained or predicted, set the attribute of that model, not of its encoder:
            otherwise, Keras continues to use the graph that it has traced.

    Raises:
        InputError: `config` is not a `BertConfig` or has an unknown `hidden_act`; the
            inputs of a call are not as described; or the model is called eagerly and a
            value is out of range, such as an id that is negative or at least
            `vocab_size`.

    Source: paper section 3; google-research/bert `modeling.BertModel`.
    """

    def __init__(
        self,
        config: BertConfig,
        name: str | None = None,
        *,
        seed: int | None = None,
        initial: InitialWeights | None = None,
        dropout_seeds: DropoutSeeds | None = None,
        recompute: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(config, recompute=recompute, name=name, **kwargs)
        size = config.hidden_size
        dtype = self.dtype_policy
        with keras.name_scope(self.name, caller=self):
            self.dropout_seeds = dropout_seeds or DropoutSeeds(
                seed, name="dropout_seeds"
            )
            initial = initial or InitialWeights(config.initializer_range, seed)
            parts = (initial, self.dropout_seeds)

            self.embeddings = Embeddings(config, *parts, dtype=dtype, name="embeddings")
            # The blocks are attributes, because tf.train.Checkpoint does not save lists
            # of layers.
            for i in range(config.num_hidden_layers):
                name = f"layer_{i}"
                setattr(
                    self, name, TransformerBlock(config, *parts, dtype=dtype, name=name)
                )
            self.pooler = Dense(size, size, "tanh", initial, dtype=dtype, name="pooler")
        self._skips_padding = False
        self.built = True

    @property
    def skip_padding(self) -> bool:
        """Whether the blocks skip padding; see the docstring of the class."""
        return self._skips_padding

    @skip_padding.setter
    def skip_padding(self, value: bool) -> None:
        if value:
            check_dynamic_shapes()
        self._skips_padding = value
        self._drop_traced_functions()

    @property
    def blocks(self) -> list[TransformerBlock]:
        """The blocks, in the order of the computation."""
        return [
            getattr(self, f"layer_{i}") for i in range(self.config.num_hidden_layers)
        ]

    @property
    def output_shape(self) -> Shape:
        """Shape of `sequence_output`, which `summary` prints."""
        return (None, None, self.config.hidden_size)

    def call(
        self,
        inputs: Mapping[str, Any],
        training: bool = False,
        attention_maps: bool = False,
    ) -> dict[str, Any]:
        inputs = complete_inputs(inputs)
        mask = inputs["input_mask"]
        hidden = self.embeddings(
            inputs["input_ids"], inputs["segment_ids"], training=training
        )  # [B, S, H]
        # [B, 1, 1, S] or [B, 1, S, S]
        bias = attention_bias(mask, self.config.attention, self.compute_dtype)

        # The blocks compute rows, one for each token or each position.
        layout = TokenRows(mask, self.skip_padding and not attention_maps, training)
        rows = layout.of_batch(hidden)  # [N, H]
        only_rows = training and not attention_maps
        call_shared = self._shared_block(layout, bias) if only_rows else None
        states = []
        maps = []
        for block in self.blocks:
            if call_shared:
                rows = call_shared(block, rows)
            elif only_rows and self.recompute:
                rows = self._call_with_recomputation(block, rows, layout, bias)
            else:
                rows, map_ = block(
                    rows,
                    bias,
                    layout=layout,
                    training=training,
                    needs_map=attention_maps,
                )
                maps.append(map_)
            states.append(layout.to_batch(rows))  # [B, S, H]

        outputs: dict[str, Any] = {
            "embedding_output": hidden,
            "encoder_outputs": states,
            "sequence_output": states[-1],
            "pooled_output": self.pooler(states[-1][:, 0]),  # [B, H]
        }
        if attention_maps:
            outputs["attention_maps"] = maps
        return outputs

    def _shared_block(
        self, layout: TokenRows, bias: Any
    ) -> Callable[[TransformerBlock, Any], Any] | None:
        """Returns a function that runs any block with the graph of the first block.

        The function is used in training. It takes a block and rows, [N, H], and returns
        the output rows. Instead of a function, None is returned if the blocks cannot
        share a graph.
        """
        first = self.blocks[0]
        share_graph = self.dropout_seeds.share_graph
        if share_graph is None or self.recompute:
            return None
        if any(len(b.weights) > len(b.variables_by_name()) for b in self.blocks):
            return None  # LoRA may differ between blocks

        def run(rows: Any, seed: Any, *values: Any) -> Any:
            # The first block, with the weights and dropout masks of another block.
            weights = zip(first.weights, values, strict=True)
            with keras.StatelessScope(weights), self.dropout_seeds.use(seed):
                return first(rows, bias, layout=layout, training=True, needs_map=False)[
                    0
                ]

        graph = share_graph(run)
        if graph is None:
            return None

        def call(block: TransformerBlock, rows: Any) -> Any:
            dropouts = block.attention.dropout.index - first.attention.dropout.index
            values = map(variable_tensor, block.weights)
            return graph(rows, self.dropout_seeds.seed_after(dropouts), *values)

        return call

    def _call_with_recomputation(
        self, block: TransformerBlock, rows: Any, layout: TokenRows, bias: Any
    ) -> Any:
        seed = self.dropout_seeds.next()

        def call(rows: Any, bias: Any) -> Any:
            # The backward pass calls this function a second time and must get the same
            # dropout masks. `zero` is 0 (for inputs without NaN) but depends on the
            # block's input. Adding `zero` to the seed therefore delays the creation of
            # the block's masks until the block runs. Otherwise the masks of all blocks
            # would be created at once and take up the memory that recomputation saves.
            zero = ops.cast(ops.any(ops.isnan(rows[:1, 0])), "int32")
            with self.dropout_seeds.use(ops.add(seed, zero)):
                return block(rows, bias, layout=layout, training=True)[0]

        return keras.remat(call)(rows, bias)

    def _exported_model(self) -> keras.Model:
        return _EncoderWithoutLists(self)

    def variables_by_name(self) -> Variables:
        """Returns all weights by name.

        Names and order are as in google-research/bert.
        """
        blocks = enumerate(self.blocks)
        return variables_of_layers(
            {
                "bert/embeddings": self.embeddings,
                **{f"bert/encoder/layer_{i}": block for i, block in blocks},
                "bert/pooler/dense": self.pooler,
            }
        )


class _EncoderWithoutLists(keras.Model):
    """The encoder without the output `encoder_outputs`.

    The outputs of an exported model must be tensors, and `encoder_outputs` is a list.
    """

    def __init__(self, encoder: BertEncoder) -> None:
        super().__init__(autocast=False, dtype=encoder.dtype_policy, name=encoder.name)
        self.encoder = encoder
        self.built = True

    def call(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: value
            for name, value in self.encoder(inputs, training=False).items()
            if not isinstance(value, list)
        }
