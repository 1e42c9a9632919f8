"""`BertTaskModel` and `BertHeadModel`: the base classes of the models with a head."""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from bert_tf.config import BertConfig
from bert_tf.errors import InputError
from bert_tf.head_config import HeadConfig
from bert_tf.modeling.base_model import BertBaseModel
from bert_tf.modeling.dropout import Dropout, DropoutSeeds
from bert_tf.modeling.encoder import BertEncoder
from bert_tf.modeling.head_layers import HeadLayers, mean_of_tokens
from bert_tf.modeling.heads import OutputHead
from bert_tf.modeling.initial_weights import InitialWeights
from bert_tf.modeling.inputs import INPUT_NAMES, complete_inputs
from bert_tf.modeling.layers import Variables, with_name_prefix


class BertTaskModel(BertBaseModel):
    """Base class of the models with a head.

    Creates the encoder and the dropout seeds.
    """

    def __init__(
        self,
        config: BertConfig,
        *,
        seed: int | None = None,
        recompute: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(config, recompute=recompute, **kwargs)
        with keras.name_scope(self.name, caller=self):
            self.dropout_seeds = DropoutSeeds(seed, name="dropout_seeds")
            self._initial = InitialWeights(config.initializer_range, seed)
            self.bert = BertEncoder(
                config,
                initial=self._initial,
                dropout_seeds=self.dropout_seeds,
                recompute=recompute,
                dtype=self.dtype_policy,
                name="bert",
            )
            self.bert.build(dict.fromkeys(INPUT_NAMES, (None, None)))
        self.built = True

    @property
    def skip_padding(self) -> bool:
        """Whether the encoder computes tokens only; see `BertEncoder`."""
        return self.bert.skip_padding

    @skip_padding.setter
    def skip_padding(self, value: bool) -> None:
        self.bert.skip_padding = value
        self._drop_traced_functions()

    def _add_head(
        self, outputs: int, dropout: float | None = None, size: int | None = None
    ) -> None:
        """Creates `head`, and `dropout` before it unless `dropout` (the rate) is None.

        Args:
            outputs: The number of logits.
            dropout: The dropout rate before the head.
            size: The width of the head's input; None for that of the encoder.
        """
        size, dtype = size or self.config.hidden_size, self.dtype_policy
        with keras.name_scope(self.name, caller=self):
            if dropout is not None:
                self.dropout = Dropout(
                    dropout, self.dropout_seeds, dtype=dtype, name="dropout"
                )
                self.dropout.build((None, size))
            self.head = OutputHead(
                size, outputs, self._initial, dtype=dtype, name="head"
            )

    def head_variables_by_name(self) -> Variables:
        """Returns the head's variables by name.

        Names and order are as in google-research/bert.
        """
        raise NotImplementedError

    def variables_by_name(self) -> Variables:
        """Returns all weights by name.

        Names and order are as in google-research/bert.
        """
        return self.bert.variables_by_name() | self.head_variables_by_name()


class BertHeadModel(BertTaskModel):
    """Base class of the models whose head may have the layers of `HeadConfig`.

    Args:
        config: The architecture.
        head: The layers before the output layer; None for none.

    Attributes:
        head_layers: The layers of `head`; None for none.
    """

    # Whether the head needs one vector for each sequence instead of one for each token.
    _pools = False

    def __init__(
        self, config: BertConfig, head: HeadConfig | None = None, **kwargs: Any
    ) -> None:
        super().__init__(config, **kwargs)
        self.head_config = head or HeadConfig()
        self.head_layers: HeadLayers | None = None
        if not self.head_config.is_default:
            with keras.name_scope(self.name, caller=self):
                self.head_layers = HeadLayers(
                    config,
                    self.head_config,
                    self._pools,
                    self._initial,
                    dtype=self.dtype_policy,
                    name="head_layers",
                )

    @property
    def _head_width(self) -> int:
        return self.head_layers.width if self.head_layers else self.config.hidden_size

    def hidden_states(self, inputs: Mapping[str, Any], training: bool = False) -> Any:
        """Returns the hidden states that `head_layers` uses.

        Args:
            inputs: The inputs of the model.
            training: Whether dropout is active in the encoder.

        Returns:
            Float tensor [B, S, K, H].
        """
        encoded = self.bert(inputs, training=training)
        states = [encoded["embedding_output"], *encoded["encoder_outputs"]]
        numbers = self.head_config.states(self.config.num_hidden_layers)
        return ops.stack([states[number] for number in numbers], axis=2)

    def features(self, inputs: Mapping[str, Any]) -> Any:
        """Returns the values that a cache stores in place of the encoder, without dropout.

        Args:
            inputs: The inputs of the model.

        Returns:
            Float tensor [B, T, K, H] of hidden states for `outputs_of_features`. T is
            S, or 1 if the head only needs the mean over the tokens.

        Raises:
            InputError: The model has no `head_layers`.
        """
        states = self.hidden_states(inputs)
        if self._require_head_layers().pools_states:
            return mean_of_tokens(states, complete_inputs(inputs)["input_mask"])
        return states

    def outputs_of_features(
        self, states: Any, mask: Any, training: bool = False
    ) -> dict[str, Any]:
        """Returns the outputs of the model for the values of `features`.

        Args:
            states: Float tensor [B, T, K, H].
            mask: int32 [B, T], 1 for a token, 0 for padding.
            training: Whether dropout is active.

        Raises:
            InputError: The model has no `head_layers`.
        """
        layers = self._require_head_layers()
        return self._outputs(layers(states, mask, training=training), training)

    def _require_head_layers(self) -> HeadLayers:
        if self.head_layers is None:
            raise InputError(
                f"This {type(self).__name__} has no layers that take hidden states. "
                "Give it a head with feature_layers or kind='bilstm'."
            )
        return self.head_layers

    def call(self, inputs: Mapping[str, Any], training: bool = False) -> dict[str, Any]:
        if self.head_layers is None:
            name = "pooled_output" if self._pools else "sequence_output"
            return self._outputs(self.bert(inputs, training=training)[name], training)
        mask = complete_inputs(inputs)["input_mask"]
        return self.outputs_of_features(
            self.hidden_states(inputs, training), mask, training
        )

    def _outputs(self, vectors: Any, training: bool) -> dict[str, Any]:
        """Returns the outputs for the vectors of the tokens, [B, S, W], or sequences, [B, W]."""
        raise NotImplementedError

    def _head_names(self) -> Variables:
        """Returns the variables of `head_layers` by name; {} without them."""
        if self.head_layers is None:
            return {}
        return with_name_prefix("cls/head_layers", self.head_layers.variables_by_name())

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "head": self.head_config.to_dict()}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        head = HeadConfig.from_dict(config.get("head"))
        return super().from_config({**config, "head": head}, custom_objects)
