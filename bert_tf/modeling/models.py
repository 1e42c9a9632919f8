"""The encoder with a head for each kind of task.

Each is a plain `keras.Model`: dict in (further keys are ignored), dict of float32 logits out. All
take `seed`, `recompute`, `dtype` and `name` as `BertEncoder` does, have the encoder at `bert` and
the dropout seeds at `dropout_seeds`. Imports layer 0, keras, and the other modules here.
"""

import re
from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from bert_tf.config import BertConfig
from bert_tf.modeling.encoder import BertEncoder
from bert_tf.modeling.heads import MaskedLMHead, OutputHead
from bert_tf.modeling.layers import Variables, flat, under, value
from bert_tf.modeling.randomness import Dropout, DropoutSeeds, InitialWeights


class BertModel(keras.Model):
    """An encoder, its dropout seeds and initializers; the heads' common base."""

    def __init__(
        self,
        config: BertConfig,
        *,
        seed: int | None = None,
        recompute: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.config = config
        self.dropout_seeds = DropoutSeeds(seed)
        self._initial = InitialWeights(config.initializer_range, seed)
        self.bert = BertEncoder(
            config,
            initial=self._initial,
            dropout_seeds=self.dropout_seeds,
            recompute=recompute,
            dtype=self.dtype_policy,
        )
        self.built = True

    def head_variables_by_name(self) -> Variables:
        """The head's variables by their released names, in released order."""
        raise NotImplementedError

    def variables_by_name(self) -> Variables:
        """All weights by their released names, in released order."""
        return self.bert.variables_by_name() | self.head_variables_by_name()

    def get_config(self) -> dict[str, Any]:
        return {
            "config": self.config.to_dict(),
            "name": self.name,
            "recompute": self.bert.recompute,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "BertModel":
        return cls(**{**config, "config": BertConfig.from_dict(config["config"])})


@keras.saving.register_keras_serializable("bert_tf")
class BertPretrainer(BertModel):
    """BERT with both pretraining heads.

    Args:
        config: The architecture.
        next_sentence: Whether there is a next-sentence head (the paper's ablations lack it).

    Call arguments:
        inputs: As for `BertEncoder`, and `masked_lm_positions` int32 [B, P]; without that key the
            masked LM predicts at every position, P = S.
        training: Whether dropout is on.

    Returns:
        Dict of
            masked_lm_logits: float32 [B, P, V];
            next_sentence_logits: float32 [B, 2], 1 = B is random; if there is that head.

    Source: google-research/bert `run_pretraining.model_fn_builder`.
    """

    def __init__(self, config: BertConfig, *, next_sentence: bool = True, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        self.next_sentence = next_sentence
        dtype = self.dtype_policy
        self.masked_lm_head = MaskedLMHead(config, self._initial, dtype=dtype, name="predictions")
        self.next_sentence_head = (
            OutputHead(config.hidden_size, 2, self._initial, dtype=dtype, name="seq_relationship")
            if next_sentence
            else None
        )

    def call(self, inputs: Mapping[str, Any], training: bool = False) -> dict[str, Any]:
        encoded = self.bert(inputs, training=training)
        table = value(self.bert.embeddings.word_embeddings)
        logits = {
            "masked_lm_logits": self.masked_lm_head(
                encoded["sequence_output"], table, inputs.get("masked_lm_positions")
            )
        }
        if self.next_sentence_head is not None:
            logits["next_sentence_logits"] = self.next_sentence_head(encoded["pooled_output"])
        return logits

    def head_variables_by_name(self) -> Variables:
        """The head's variables by their released names, in released order."""
        named = under("cls/predictions", self.masked_lm_head.variables_by_name())
        if self.next_sentence_head is not None:
            named |= under("cls/seq_relationship", self.next_sentence_head.variables_by_name())
        return named

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "next_sentence": self.next_sentence}


@keras.saving.register_keras_serializable("bert_tf")
class BertClassifier(BertModel):
    """BERT with a classifier or a regressor on the pooled first token.

    Args:
        config: The architecture.
        num_labels: Number of classes; 1 for a regression.
        classifier_dropout: Dropout before the head, in [0, 1). The released code has 0.1 whatever
            the config says.

    Call arguments:
        inputs: As for `BertEncoder`.
        training: Whether dropout is on.

    Returns:
        Dict of logits: float32 [B, num_labels].

    Source: google-research/bert `run_classifier.create_model`.
    """

    def __init__(
        self, config: BertConfig, num_labels: int, classifier_dropout: float = 0.1, **kwargs: Any
    ) -> None:
        super().__init__(config, **kwargs)
        self.num_labels, self.classifier_dropout = num_labels, classifier_dropout
        dtype = self.dtype_policy
        self.dropout = Dropout(classifier_dropout, self.dropout_seeds, dtype=dtype)
        self.head = OutputHead(config.hidden_size, num_labels, self._initial, dtype=dtype)

    def call(self, inputs: Mapping[str, Any], training: bool = False) -> dict[str, Any]:
        pooled = self.bert(inputs, training=training)["pooled_output"]
        return {"logits": self.head(self.dropout(pooled, training=training))}

    def head_variables_by_name(self) -> Variables:
        """The head's variables by their released names."""
        return self.head.variables_by_name()

    def get_config(self) -> dict[str, Any]:
        own = {"num_labels": self.num_labels, "classifier_dropout": self.classifier_dropout}
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable("bert_tf")
class BertSpanPredictor(BertModel):
    """BERT with a start and an end score for each token.

    Args:
        config: The architecture.

    Call arguments:
        inputs: As for `BertEncoder`.
        training: Whether dropout is on.

    Returns:
        Dict of start_logits and end_logits: float32 [B, S].

    Source: google-research/bert `run_squad.create_model`.
    """

    def __init__(self, config: BertConfig, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        self.head = OutputHead(config.hidden_size, 2, self._initial, dtype=self.dtype_policy)

    def call(self, inputs: Mapping[str, Any], training: bool = False) -> dict[str, Any]:
        sequence = self.bert(inputs, training=training)["sequence_output"]
        logits = ops.reshape(self.head(flat(sequence)), (-1, ops.shape(sequence)[1], 2))
        return {"start_logits": logits[:, :, 0], "end_logits": logits[:, :, 1]}

    def head_variables_by_name(self) -> Variables:
        """The head's variables by their released names."""
        return under("cls/squad", self.head.variables_by_name())


@keras.saving.register_keras_serializable("bert_tf")
class BertTagger(BertModel):
    """BERT with a classifier on every token, such as for named entities.

    The released code has no such head; its weights are at `cls/tagger`.

    Args:
        config: The architecture.
        num_labels: Number of classes.
        classifier_dropout: Dropout before the head, in [0, 1).

    Call arguments:
        inputs: As for `BertEncoder`.
        training: Whether dropout is on.

    Returns:
        Dict of logits: float32 [B, S, num_labels].

    Source: paper, sections 4 and 5.3.
    """

    def __init__(
        self, config: BertConfig, num_labels: int, classifier_dropout: float = 0.1, **kwargs: Any
    ) -> None:
        super().__init__(config, **kwargs)
        self.num_labels, self.classifier_dropout = num_labels, classifier_dropout
        dtype = self.dtype_policy
        self.dropout = Dropout(classifier_dropout, self.dropout_seeds, dtype=dtype)
        self.head = OutputHead(config.hidden_size, num_labels, self._initial, dtype=dtype)

    def call(self, inputs: Mapping[str, Any], training: bool = False) -> dict[str, Any]:
        sequence = self.bert(inputs, training=training)["sequence_output"]
        logits = self.head(self.dropout(flat(sequence), training=training))
        return {"logits": ops.reshape(logits, (-1, ops.shape(sequence)[1], self.num_labels))}

    def head_variables_by_name(self) -> Variables:
        """The head's variables by their names."""
        return under("cls/tagger", self.head.variables_by_name())

    def get_config(self) -> dict[str, Any]:
        own = {"num_labels": self.num_labels, "classifier_dropout": self.classifier_dropout}
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable("bert_tf")
class BertMultipleChoice(BertModel):
    """BERT with one score for each of several continuations, as for SWAG.

    The released code has no such head; its weights are at `cls/choice`. C is the number of
    choices.

    Args:
        config: The architecture.
        classifier_dropout: Dropout before the head, in [0, 1).

    Call arguments:
        inputs: As for `BertEncoder`, but of shape [B, C, S].
        training: Whether dropout is on.

    Returns:
        Dict of logits: float32 [B, C].

    Source: paper, section 4.4.
    """

    def __init__(self, config: BertConfig, classifier_dropout: float = 0.1, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        self.classifier_dropout = classifier_dropout
        dtype = self.dtype_policy
        self.dropout = Dropout(classifier_dropout, self.dropout_seeds, dtype=dtype)
        self.head = OutputHead(config.hidden_size, 1, self._initial, dtype=dtype)

    def call(self, inputs: Mapping[str, Any], training: bool = False) -> dict[str, Any]:
        _, choices, length = ops.shape(inputs["input_ids"])
        rows = {
            name: ops.reshape(inputs[name], (-1, length))
            for name in ("input_ids", "input_mask", "segment_ids")
        }
        pooled = self.bert(rows, training=training)["pooled_output"]
        logits = self.head(self.dropout(pooled, training=training))
        return {"logits": ops.reshape(logits, (-1, choices))}

    def head_variables_by_name(self) -> Variables:
        """The head's variables by their names."""
        return under("cls/choice", self.head.variables_by_name())

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "classifier_dropout": self.classifier_dropout}


def variables_by_name(model: BertEncoder | BertModel) -> Variables:
    """All weights of a model by their google-research/bert names, in released order.

    Args:
        model: Any model of this package.

    Returns:
        Name to variable, in its released shape (kernels [in, out]). Training state, such as the
        state of the dropout seeds, is not among them.
    """
    return model.variables_by_name()


def depths_by_name(model: BertEncoder | BertModel) -> dict[str, int]:
    """How many layers each weight is above the ids, for layer-wise learning rates.

    Args:
        model: Any model of this package.

    Returns:
        Name to depth: 0 for the embeddings, i + 1 for block i, L + 1 for pooler and heads.
    """
    top = model.config.num_hidden_layers + 1
    depths = {}
    for name in variables_by_name(model):
        block = re.match(r"bert/encoder/layer_(\d+)/", name)
        below = 0 if name.startswith("bert/embeddings/") else top
        depths[name] = int(block[1]) + 1 if block else below
    return depths
