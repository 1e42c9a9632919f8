"""Copies the weights of a checkpoint to a model, and checks that they fit.

`assign` does both; `check_config` checks before a model is built.
`classifier_of` renames the weights of a head whose kind the checkpoint does not tell.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_tf.config import BertConfig
from bert_tf.conversion import weight_names
from bert_tf.conversion.checkpoint_contents import ENCODER, CheckpointContents
from bert_tf.errors import InputError, shortened
from bert_tf.modeling import BertEncoder, BertTaskModel, variables_by_name

# A Hugging Face checkpoint has no pooler if the model's head does not use a pooler.
_OPTIONAL = "bert/pooler/"
_MASKED_LM = "cls/predictions/"


@dataclasses.dataclass(frozen=True)
class AssignmentReport:
    """The names of the tensors that `assign` set or did not set; `str` gives a summary.

    Attributes:
        missing: Variables of the model that are not in the checkpoint. Their values are
            unchanged.
        unused: Weights of the checkpoint that are not in the model.
        unknown: Tensors of the checkpoint that are not BERT weights.
    """

    assigned: tuple[str, ...]
    missing: tuple[str, ...]
    unused: tuple[str, ...]
    unknown: tuple[str, ...]

    def __str__(self) -> str:
        others = {
            "Not in the checkpoint, left as initialized": self.missing,
            "In the checkpoint, but not in the model": self.unused,
            "Not weights of a BERT": self.unknown,
        }
        sentences = [f"{len(self.assigned)} weights read."]
        sentences += [
            f"{text}: {shortened(names, 6)}." for text, names in others.items() if names
        ]
        return " ".join(sentences)

    def without_heads(self) -> "AssignmentReport":
        """Returns the report without the missing and unused weights of heads."""
        missing, unused = (
            tuple(name for name in names if name.startswith(ENCODER))
            for names in (self.missing, self.unused)
        )
        return dataclasses.replace(self, missing=missing, unused=unused)


def assign(
    model: BertEncoder | BertTaskModel, contents: CheckpointContents
) -> AssignmentReport:
    """Sets a model's variables from a checkpoint.

    If the checkpoint does not contain the model's head, the report lists the variables
    of the head as missing.

    Raises:
        InputError: A shape differs, the checkpoint lacks a part of the encoder, or the
            model has a masked-LM head and the output weights of the checkpoint's masked
            LM are not its word embeddings. All variables then keep their values.
    """
    variables = variables_by_name(model)
    if not contents.tied_masked_lm and any(
        name.startswith(_MASKED_LM) for name in variables
    ):
        raise InputError(
            f"{contents.source} has a masked LM whose output weights are not tied to "
            f"the word embeddings; those of {type(model).__name__} are. Fill a model "
            "without a masked-LM head, or convert the checkpoint with "
            "encoder_only=True and train a new head."
        )

    head = classifier_of(variables, contents)
    available = {**contents.arrays, **head}

    # All shapes are checked before the first variable is set.
    shapes = {name: tuple(variable.shape) for name, variable in variables.items()}
    _check_shapes(contents.source, available, shapes)
    arrays = {name: available[name] for name in variables if name in available}
    for name, array in arrays.items():
        variables[name].assign(array)

    missing = tuple(name for name in variables if name not in available)
    unused = sorted(contents.arrays.keys() - variables.keys())
    if not head:
        unused += contents.classifier
    return AssignmentReport(tuple(arrays), missing, tuple(unused), contents.unknown)


def check_config(contents: CheckpointContents, config: BertConfig) -> None:
    """Checks that a config fits a checkpoint, before records and models are built.

    Checks a few weights, whose shapes contain all sizes of the config; `assign` checks
    the other weights. If the checkpoint has a config, the number of attention
    heads must be equal. For checkpoints of bert-tf, the activation and the epsilon must
    be equal too; other programs may not know them.
    """
    own = contents.config
    names = ("num_attention_heads", "hidden_act", "layer_norm_eps")
    for name in names if contents.dialect == "bert-tf" else names[:1]:
        if own is not None and getattr(own, name) != getattr(config, name):
            raise InputError(
                f"The given config has {name}={getattr(config, name)!r}, but "
                f"{contents.source} was trained with {name}={getattr(own, name)!r}. "
                "Leave out bert_config_file."
            )

    # These weights have all sizes of the config.
    hidden = config.hidden_size
    embeddings = f"{ENCODER}embeddings/"
    last_layer = f"{ENCODER}encoder/layer_{config.num_hidden_layers - 1}/"
    shapes = {
        f"{embeddings}word_embeddings": (config.vocab_size, hidden),
        f"{embeddings}token_type_embeddings": (config.type_vocab_size, hidden),
        f"{embeddings}position_embeddings": (config.max_position_embeddings, hidden),
        f"{last_layer}intermediate/dense/kernel": (hidden, config.intermediate_size),
    }
    _check_shapes(contents.source, contents.arrays, shapes)


def _check_shapes(
    source: str,
    arrays: Mapping[str, np.ndarray],
    shapes: Mapping[str, tuple[int, ...]],
) -> None:
    """Checks that the encoder is complete, and that all weights have the given shapes."""
    needed = [
        name
        for name in shapes
        if name.startswith(ENCODER)
        and not name.startswith(_OPTIONAL)
        and name not in arrays
    ]
    if needed:
        raise InputError(
            f"{source} lacks weights of this encoder, such as {needed[0]}. The "
            "checkpoint must be a BERT with at least as many layers as the config."
        )

    for name, shape in shapes.items():
        if name in arrays and arrays[name].shape != shape:
            raise InputError(
                f"{name} has the shape {list(arrays[name].shape)} in {source}, but "
                f"{list(shape)} in the model. Use the config and the number of labels "
                "of the checkpoint, or convert the checkpoint with encoder_only=True."
            )


def classifier_of(
    variables: Mapping[str, Any], contents: CheckpointContents
) -> dict[str, np.ndarray]:
    """Returns the weights in `contents.classifier`, by names as in `variables`.

    `variables` are the variables of the model by name. The dict is empty if
    `contents.classifier` is empty or cannot be the head of this model.
    """
    kinds = [
        weight_names.classifier_rows(architecture)
        for architecture in weight_names.CLASSIFIER_HEADS
    ]
    if contents.dialect != "hugging_face":
        kinds.append(weight_names.span_rows("classifier"))

    for rows in kinds:
        if all(row.google in variables for row in rows):
            return {
                row.google: contents.classifier[row.hugging_face]
                for row in rows
                if row.hugging_face in contents.classifier
            }
    return {}
