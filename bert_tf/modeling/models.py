"""One model for each kind of task: the encoder with an output layer (head).

Each model is a plain `keras.Model` that maps a dict of inputs to a dict of float32
logits. A model ignores the inputs that it does not use. All models accept `seed`,
`recompute`, `dtype` and `name` like `BertEncoder`. Each model has the attributes `bert`
(the encoder) and `dropout_seeds` (the seeds of all dropout layers). `BertTaskModel` and
`BertHeadModel` are their base classes.
"""

import re
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_tf.config import BertConfig
from bert_tf.errors import InputError, check_at_least
from bert_tf.head_config import HeadConfig
from bert_tf.modeling.base import BertBaseModel
from bert_tf.modeling.encoder import BertEncoder
from bert_tf.modeling.heads import HeadLayers, MaskedLMHead, OutputHead, mean_of_tokens
from bert_tf.modeling.initial_weights import InitialWeights
from bert_tf.modeling.inputs import INPUT_NAMES, POSITIONS, complete_inputs, to_int32
from bert_tf.modeling.layers import (
    Dense,
    Dropout,
    DropoutSeeds,
    Variables,
    flatten_to_rows,
    restore_shape,
    variable_tensor,
    variables_of_layers,
    with_constants,
)


class BertTaskModel(BertBaseModel):
    """Base class of the models with a head; creates the encoder and the dropout seeds."""

    # The prefix of the names of the variables of `head`.
    _head_prefix = ""

    def __init__(
        self,
        config: BertConfig,
        *,
        seed: int | None = None,
        recompute: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(config, recompute=recompute, **kwargs)
        self._head_width = config.hidden_size  # of the input of the head
        with keras.name_scope(self.name, caller=self):
            # The encoder and the head share the seeds.
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
        """Whether the encoder skips padding; see `BertEncoder`."""
        return self.bert.skip_padding

    @skip_padding.setter
    def skip_padding(self, value: bool) -> None:
        self.bert.skip_padding = value
        self._drop_traced_functions()

    def _add_head(self, outputs: int, dropout: float | None = None) -> None:
        """Creates the layer `self.head`, which computes `outputs` logits.

        Also creates `self.dropout`, for its input, unless the rate `dropout` is None.
        """
        size = self._head_width
        dtype = self.dtype_policy
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
        return {
            f"{self._head_prefix}{name}": variable
            for name, variable in self.head.variables_by_name().items()
        }

    def variables_by_name(self) -> Variables:
        """Returns all weights by name.

        Names and order are as in google-research/bert.
        """
        return self.bert.variables_by_name() | self.head_variables_by_name()


class BertHeadModel(BertTaskModel):
    """Base class of the models whose head may have additional layers (`HeadConfig`).

    Attributes:
        head_layers: The layers before the output layer; None if there are none.
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
            self._head_width = self.head_layers.width

    def hidden_states(self, inputs: Mapping[str, Any], training: bool = False) -> Any:
        """Returns the hidden states that `head_layers` uses.

        Args:
            inputs: The inputs of the model.
            training: Whether dropout is active in the encoder.

        Returns:
            Float tensor [B, S, K, H], for K hidden states of each token.
        """
        encoded = self.bert(inputs, training=training)
        states = [encoded["embedding_output"], *encoded["encoder_outputs"]]  # [B, S, H]
        numbers = self.head_config.states(self.config.num_hidden_layers)
        return ops.stack([states[number] for number in numbers], axis=2)

    def features(self, inputs: Mapping[str, Any]) -> Any:
        """Returns the hidden states that a cache stores for a batch, without dropout.

        Args:
            inputs: The inputs of the model.

        Returns:
            Float tensor [B, T, K, H], for `outputs_of_features`. T is S, or 1 if the
            head only needs the mean over the tokens.

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
        """Returns the outputs of the model for hidden states from `features`.

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
        """Returns the logits by name, for vectors of tokens [B, S, W] or of sequences [B, W]."""
        raise NotImplementedError

    def head_variables_by_name(self) -> Variables:
        """Returns the variables of `head_layers`, if any, and of the head by name."""
        layers = {"cls/head_layers": self.head_layers} if self.head_layers else {}
        return variables_of_layers(layers) | super().head_variables_by_name()

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "head": self.head_config.to_dict()}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        head = HeadConfig.from_dict(config.get("head"))
        return super().from_config({**config, "head": head}, custom_objects)


@keras.saving.register_keras_serializable("bert_tf")
class BertPretrainer(BertTaskModel):
    """BERT with the masked-LM head and, by default, the next-sentence head.

    Args:
        config: The architecture.
        next_sentence: Whether the model has a next-sentence head. The paper's "No NSP"
            models have no next-sentence head.

    Call arguments:
        inputs: The inputs of `BertEncoder` and, optionally, `masked_lm_positions`,
            int32 [B, P]. Without `masked_lm_positions`, the masked-LM head predicts all
            tokens (P = S).
        training: Whether dropout is active.

    Returns:
        Dict with
            masked_lm_logits: float32 [B, P, V];
            next_sentence_logits: float32 [B, 2]; class 1 means that the second text is
                random. Present only if the model has a next-sentence head.

    Source: google-research/bert `run_pretraining.model_fn_builder`.
    """

    _input_names = (*INPUT_NAMES, POSITIONS)

    def __init__(
        self, config: BertConfig, *, next_sentence: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(config, **kwargs)
        self.next_sentence = next_sentence
        size = config.hidden_size
        dtype = self.dtype_policy
        self.next_sentence_head = None
        with keras.name_scope(self.name, caller=self):
            self.masked_lm_head = MaskedLMHead(
                config, self._initial, dtype=dtype, name="predictions"
            )
            if next_sentence:
                self.next_sentence_head = OutputHead(
                    size, 2, self._initial, dtype=dtype, name="seq_relationship"
                )

    def call(self, inputs: Mapping[str, Any], training: bool = False) -> dict[str, Any]:
        encoded = self.bert(inputs, training=training)

        # The output weights are the word embeddings, [V, H].
        table = variable_tensor(self.bert.embeddings.word_embeddings)
        positions = inputs.get(POSITIONS)
        if positions is not None:
            positions = to_int32(positions)
        predicted = self.masked_lm_head(encoded["sequence_output"], table, positions)

        logits = {"masked_lm_logits": predicted}  # [B, P, V]
        if self.next_sentence_head is not None:
            logits["next_sentence_logits"] = self.next_sentence_head(
                encoded["pooled_output"]
            )
        return logits

    def head_variables_by_name(self) -> Variables:
        """Returns the head's variables by name.

        Names and order are as in google-research/bert.
        """
        layers: dict[str, Any] = {"cls/predictions": self.masked_lm_head}
        if self.next_sentence_head is not None:
            layers["cls/seq_relationship"] = self.next_sentence_head
        return variables_of_layers(layers)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "next_sentence": self.next_sentence}


class _LabelModel(BertHeadModel):
    """Base class of models whose head has dropout, and one logit for each label."""

    def __init__(
        self,
        config: BertConfig,
        num_labels: int,
        classifier_dropout: float = 0.1,
        **kwargs: Any,
    ) -> None:
        super().__init__(config, **kwargs)
        self.num_labels = num_labels
        self.classifier_dropout = classifier_dropout
        check_at_least(1, self, "num_labels")
        self._add_head(num_labels, classifier_dropout)

    def get_config(self) -> dict[str, Any]:
        own = {
            "num_labels": self.num_labels,
            "classifier_dropout": self.classifier_dropout,
        }
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable("bert_tf")
class BertClassifier(_LabelModel):
    """BERT with a head on the pooled output, for classification or regression.

    Args:
        config: The architecture.
        num_labels: Number of classes; 1 for regression.
        classifier_dropout: Dropout rate, in [0, 1), before the head.
            google-research/bert always uses 0.1, regardless of the config.
        head: Layers between the encoder and the output layer, whose result replaces the
            pooled output; None for no such layers.

    Call arguments:
        inputs: The inputs of `BertEncoder`.
        training: Whether dropout is active.

    Returns:
        Dict with `logits`, float32 [B, num_labels].

    Raises:
        InputError: `num_labels` or `classifier_dropout` is out of range.

    Source: google-research/bert `run_classifier.create_model`.
    """

    _pools = True

    def _outputs(self, vectors: Any, training: bool) -> dict[str, Any]:
        return {"logits": self.head(self.dropout(vectors, training=training))}


@keras.saving.register_keras_serializable("bert_tf")
class BertSpanPredictor(BertHeadModel):
    """BERT with a start logit and an end logit for each token.

    Args:
        config: The architecture.
        head: Layers between the encoder and the output layer; None for no such layers.

    Call arguments:
        inputs: The inputs of `BertEncoder`.
        training: Whether dropout is active.

    Returns:
        Dict with `start_logits` and `end_logits`, each float32 [B, S].

    Source: google-research/bert `run_squad.create_model`.
    """

    _head_prefix = "cls/squad/"

    def __init__(self, config: BertConfig, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        self._add_head(2)

    def _outputs(self, vectors: Any, training: bool) -> dict[str, Any]:
        rows = self.head(flatten_to_rows(vectors))  # [B*S, 2]
        logits = restore_shape(rows, vectors)  # [B, S, 2]
        return {"start_logits": logits[:, :, 0], "end_logits": logits[:, :, 1]}


@keras.saving.register_keras_serializable("bert_tf")
class BertTagger(_LabelModel):
    """BERT with a classifier on every token, for example for named entities.

    google-research/bert has no tagging head. In bert-tf, the names of the head's
    weights start with `cls/tagger/`.

    Args:
        config: The architecture.
        num_labels: Number of classes.
        classifier_dropout: Dropout rate, in [0, 1), before the head.
        head: Layers between the encoder and the output layer; None for no such layers.

    Call arguments:
        inputs: The inputs of `BertEncoder`.
        training: Whether dropout is active.

    Returns:
        Dict with `logits`, float32 [B, S, num_labels].

    Raises:
        InputError: `num_labels` or `classifier_dropout` is out of range.

    Source: paper, sections 4 and 5.3.
    """

    _head_prefix = "cls/tagger/"

    def _outputs(self, vectors: Any, training: bool) -> dict[str, Any]:
        rows = flatten_to_rows(vectors)  # [B*S, W]
        logits = self.head(self.dropout(rows, training=training))
        return {"logits": restore_shape(logits, vectors)}


@keras.saving.register_keras_serializable("bert_tf")
class BertMultipleChoice(BertTaskModel):
    """BERT with one logit for each of several choices, such as four in SWAG.

    google-research/bert has no multiple-choice head. In bert-tf, the names of the
    head's weights start with `cls/choice/`.

    Args:
        config: The architecture.
        classifier_dropout: Dropout rate, in [0, 1), before the head.

    Call arguments:
        inputs: The inputs of `BertEncoder`, but of shape [B, C, S] for C choices.
        training: Whether dropout is active.

    Returns:
        Dict with `logits`, float32 [B, C].

    Raises:
        InputError: `classifier_dropout` is out of range.

    Source: paper, section 4.4.
    """

    _head_prefix = "cls/choice/"
    _input_axes = ("B", "C", "S")

    def __init__(
        self, config: BertConfig, classifier_dropout: float = 0.1, **kwargs: Any
    ) -> None:
        super().__init__(config, **kwargs)
        self.classifier_dropout = classifier_dropout
        self._add_head(1, classifier_dropout)

    def call(self, inputs: Mapping[str, Any], training: bool = False) -> dict[str, Any]:
        # Each choice is a sequence: [B, C, S] -> [B*C, S].
        batch, choices, length = ops.shape(inputs["input_ids"])
        is_known = isinstance(batch, int) and isinstance(choices, int)
        shape = with_constants((batch * choices if is_known else None, length))
        rows = {n: ops.reshape(x, shape) for n, x in complete_inputs(inputs).items()}

        pooled = self.bert(rows, training=training)["pooled_output"]  # [B*C, H]
        logits = self.head(self.dropout(pooled, training=training))
        return {"logits": ops.reshape(logits, (-1, choices))}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "classifier_dropout": self.classifier_dropout}


def variables_by_name(model: BertEncoder | BertTaskModel) -> Variables:
    """Returns all weights of a model by name.

    Names, order and shapes are as in google-research/bert (kernels are [in, out]).
    Training state, such as the state of the dropout seeds, is not included.
    """
    return model.variables_by_name()


def arrays_by_name(model: BertEncoder | BertTaskModel) -> dict[str, np.ndarray]:
    """Returns the values of all weights by name, float32, for writing a checkpoint.

    Names, order and shapes are as in `variables_by_name`. The updates of LoRA are added
    to the kernels.
    """
    merged = {
        layer.kernel.path: layer.merged_kernel()
        for layer in model._flatten_layers()
        if isinstance(layer, Dense) and layer.lora_rank
    }

    return {
        name: np.asarray(
            ops.convert_to_numpy(merged.get(variable.path, variable)), np.float32
        )
        for name, variable in variables_by_name(model).items()
    }


def depths_by_name(model: BertEncoder | BertTaskModel) -> dict[str, int]:
    """Returns the depth of each weight, for layer-wise learning rates.

    The depth is 0 for embeddings, i + 1 for block i, and L + 1 for pooler and heads.
    """
    top = model.config.num_hidden_layers + 1
    depths = {}
    for name in variables_by_name(model):
        block = re.match(r"bert/encoder/layer_(\d+)/", name)
        outside_blocks = 0 if name.startswith("bert/embeddings/") else top
        depths[name] = int(block[1]) + 1 if block else outside_blocks
    return depths
