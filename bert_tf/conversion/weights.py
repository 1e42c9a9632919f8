"""`Weights`: what any checkpoint is read into; and putting it into a model.

Imports layer 0 and `modeling`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_tf.config import BertConfig
from bert_tf.errors import InputError
from bert_tf.modeling import BertEncoder, BertTaskModel, variables_by_name

_SHOWN = 6
# Hugging Face leaves the pooler out where a head does not use it.
_OPTIONAL = "bert/pooler/"


@dataclasses.dataclass(frozen=True)
class Weights:
    """A checkpoint in our terms.

    Attributes:
        source: Where it was read from.
        dialect: "bert-tf", "google", "hugging_face" or "model_garden".
        arrays: float32 arrays by google-research/bert name.
        config: The architecture, or None if no config was found beside it.
        vocabulary: The entries by id, or None if no vocabulary was found beside it.
        do_lower_case: Whether the tokenizer lowers case, or None if nothing says so.
        extra: Further facts, such as `labels`.
        unknown: Tensors of the file that have no place in a BERT.
        slots: Adam's `<name>/adam_m` and `<name>/adam_v`, where they were asked for.
        global_step: Number of updates, or None if the file does not say.
    """

    source: str
    dialect: str
    arrays: dict[str, np.ndarray]
    config: BertConfig | None = None
    vocabulary: list[str] | None = None
    do_lower_case: bool | None = None
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    slots: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    global_step: int | None = None


@dataclasses.dataclass(frozen=True)
class Report:
    """What became of each tensor; as text, one sentence for each kind.

    Attributes:
        assigned: Variables that were set.
        missing: Variables of the model that the checkpoint lacks: they keep their initial values.
        unused: Weights of the checkpoint that the model has no place for.
        unknown: Tensors of the file that are no weights of a BERT.
    """

    assigned: tuple[str, ...]
    missing: tuple[str, ...]
    unused: tuple[str, ...]
    unknown: tuple[str, ...]

    def __str__(self) -> str:
        sentences = [f"{len(self.assigned)} weights read."]
        if self.missing:
            sentences.append(f"Not in the checkpoint, left as initialized: {_few(self.missing)}.")
        if self.unused:
            sentences.append(f"In the checkpoint, without a place here: {_few(self.unused)}.")
        if self.unknown:
            sentences.append(f"Not weights of a BERT: {_few(self.unknown)}.")
        return " ".join(sentences)


def _few(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def assign(model: BertEncoder | BertTaskModel, weights: Weights) -> Report:
    """Sets a model's variables from a checkpoint.

    Args:
        model: Any model of `bert_tf.modeling`.
        weights: What `read_weights` returned.

    Returns:
        What became of each tensor. A head that the checkpoint lacks is under `missing`.

    Raises:
        InputError: A shape differs, or the checkpoint lacks a part of the encoder; nothing was
            set then.
    """
    variables = variables_by_name(model)
    missing = tuple(name for name in variables if name not in weights.arrays)
    needed = [n for n in missing if n.startswith("bert/") and not n.startswith(_OPTIONAL)]
    if needed:
        raise InputError(
            f"{weights.source} lacks {len(needed)} of this encoder's weights, such as {needed[0]}. "
            "It must be a BERT with at least as many layers as the config says."
        )
    found = {name: weights.arrays[name] for name in variables if name in weights.arrays}
    for name, array in found.items():
        shape = tuple(variables[name].shape)
        if array.shape != shape:
            raise InputError(
                f"{name} has the shape {list(array.shape)} in {weights.source}, but "
                f"{list(shape)} in the model. Give the config that belongs to the checkpoint, or "
                "a checkpoint without that head."
            )
    for name, array in found.items():
        variables[name].assign(array)
    unused = tuple(name for name in weights.arrays if name not in variables)
    return Report(tuple(found), missing, unused, weights.unknown)
