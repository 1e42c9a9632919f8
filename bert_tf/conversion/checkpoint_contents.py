"""`CheckpointContents` holds a checkpoint of any dialect.

`check_weights` checks the values that were read, and `assign` copies the weights to a
model. A dialect is a checkpoint format, such as "google" or "hugging_face".
"""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.conversion import weight_names
from bert_tf.errors import InputError, shortened
from bert_tf.modeling import BertEncoder, BertTaskModel, variables_by_name

_ENCODER = "bert/"
# A Hugging Face checkpoint has no pooler if the model's head does not use a pooler.
_OPTIONAL = "bert/pooler/"
_MASKED_LM = "cls/predictions/"


@dataclasses.dataclass(frozen=True)
class CheckpointContents:
    """A checkpoint, with the weight names and shapes of google-research/bert.

    Attributes:
        source: The path that the checkpoint was read from.
        dialect: The dialect of the checkpoint, a key of `DIALECTS`.
        arrays: The weights as float32 arrays, by google-research/bert name.
        config: The architecture, or None if the checkpoint has no config.
        vocabulary: The tokens in order of their ids, or None if the checkpoint has no
            vocabulary.
        do_lower_case: Whether the tokenizer lower-cases text; None if this is unknown.
        extra: Further information from the checkpoint, such as `labels`.
        unknown: Names of the tensors in the checkpoint that are not BERT weights.
        slots: Adam's two moments of each weight, by `<name>/adam_m` and
            `<name>/adam_v`, where `<name>` is the weight's name. Empty if the slots
            were not requested.
        global_step: Number of training steps (weight updates), or None if unknown.
        tokenizer_problem: The settings of the checkpoint's tokenizer that
            `BertTokenizer` does not support, or "". If there are any, `vocabulary` is
            None.
        classifier: The head that Hugging Face names `classifier`, by Hugging Face name,
            if the checkpoint does not tell whether the head classifies texts, tokens or
            choices (for the Model Garden: texts or tokens, or predicts spans).
            Otherwise, the head is in `arrays`, and this dict is empty.
        tied_masked_lm: Whether the output layer of the masked LM is the word
            embeddings. The models of bert-tf do not have another output layer. If
            false, `arrays` contains the other weights of the masked-LM head.
        notes: How models of bert-tf with these contents differ from those of the
            program that wrote the checkpoint, for the user.
    """

    source: str
    dialect: str
    arrays: dict[str, np.ndarray] = dataclasses.field(repr=False)
    config: BertConfig | None = None
    vocabulary: list[str] | None = dataclasses.field(default=None, repr=False)
    do_lower_case: bool | None = None
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    slots: dict[str, np.ndarray] = dataclasses.field(default_factory=dict, repr=False)
    global_step: int | None = None
    tokenizer_problem: str = ""
    classifier: dict[str, np.ndarray] = dataclasses.field(
        default_factory=dict, repr=False
    )
    tied_masked_lm: bool = True
    notes: tuple[str, ...] = ()

    def vocabulary_for_tokenizer(self) -> list[str] | None:
        """Returns the vocabulary, or None if the checkpoint has no vocabulary.

        Raises:
            InputError: The checkpoint's tokenizer has settings that `BertTokenizer`
                does not support, so that the ids would differ.
        """
        if self.vocabulary is None and self.tokenizer_problem:
            raise InputError(
                f"{self.source} has a tokenizer that gives other ids than the "
                f"tokenizer of google-research/bert: {self.tokenizer_problem}. Give a "
                "vocab.txt as vocab_file to tokenize by the rules of "
                "google-research/bert all the same."
            )
        return self.vocabulary

    def require_config(self) -> BertConfig:
        """Returns the config.

        Raises:
            InputError: The checkpoint has no config.
        """
        if self.config is None:
            raise InputError(
                f"{self.source} has no bert_config.json in its folder. Give its path "
                "as bert_config_file."
            )
        return self.config

    def sha256(self) -> str:
        """Returns the SHA-256 of all weights, which is the same in all dialects."""
        digest = hashlib.sha256()
        for name, array in sorted({**self.arrays, **self.classifier}.items()):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def with_layers(self, layers: Sequence[int]) -> "CheckpointContents":
        """Returns the contents with some of the Transformer blocks, and without slots.

        All other weights, such as embeddings, pooler and heads, are the same arrays.

        Args:
            layers: The blocks in their new order, from 0.

        Raises:
            InputError: There is no such block, or the checkpoint has no config.
        """
        config = self.require_config()
        if missing := [each for each in layers if each >= config.num_hidden_layers]:
            raise InputError(
                f"init_layers has the block {missing[0]}, but {self.source} has the "
                f"blocks 0 to {config.num_hidden_layers - 1}. Give existing blocks."
            )

        # All weights except those of the blocks are kept.
        blocks = f"{_ENCODER}encoder/layer_"
        arrays = {
            n: array for n, array in self.arrays.items() if not n.startswith(blocks)
        }

        # The chosen blocks are numbered from 0.
        for number, layer in enumerate(layers):
            old, new = f"{blocks}{layer}/", f"{blocks}{number}/"
            block = {
                name: array
                for name, array in self.arrays.items()
                if name.startswith(old)
            }
            arrays |= {name.replace(old, new): array for name, array in block.items()}

        config = dataclasses.replace(config, num_hidden_layers=len(layers))
        return dataclasses.replace(self, arrays=arrays, config=config, slots={})

    def encoder_only(self) -> "CheckpointContents":
        """Returns the contents without heads, their labels and their task type."""
        of_head = ("labels", "head", "task_type")
        return dataclasses.replace(
            self,
            arrays={n: a for n, a in self.arrays.items() if n.startswith(_ENCODER)},
            slots={n: a for n, a in self.slots.items() if n.startswith(_ENCODER)},
            extra={k: value for k, value in self.extra.items() if k not in of_head},
            classifier={},
        )


@dataclasses.dataclass(frozen=True)
class AssignmentReport:
    """The names of the tensors that `assign` did and did not set.

    `str` gives a summary.

    Attributes:
        assigned: Variables of the model that were set.
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
            tuple(name for name in names if name.startswith(_ENCODER))
            for names in (self.missing, self.unused)
        )
        return dataclasses.replace(self, missing=missing, unused=unused)


def assign(
    model: BertEncoder | BertTaskModel, contents: CheckpointContents
) -> AssignmentReport:
    """Sets a model's variables from a checkpoint.

    Args:
        model: Any model of `bert_tf.modeling`.
        contents: The checkpoint, from `read_weights`.

    Returns:
        The names of the assigned, missing, unused and unknown tensors. If the
        checkpoint does not contain the model's head, the variables of the head are
        missing.

    Raises:
        InputError: A shape differs, the checkpoint lacks a part of the encoder, or the
            model has a masked-LM head and the output layer of the checkpoint's masked
            LM is not the word embeddings. In these cases, all variables keep their
            values.
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
    missing = tuple(name for name in variables if name not in available)
    _check_complete(contents.source, missing)

    # All shapes are checked before the first variable is set.
    arrays = {name: available[name] for name in variables if name in available}
    for name, array in arrays.items():
        _check_shape(contents.source, name, array, tuple(variables[name].shape))
    for name, array in arrays.items():
        variables[name].assign(array)

    unused = sorted(contents.arrays.keys() - variables.keys())
    if not head:
        unused += contents.classifier
    return AssignmentReport(tuple(arrays), missing, tuple(unused), contents.unknown)


def check_config(contents: CheckpointContents, config: BertConfig) -> None:
    """Checks that a config computes the same as that of the checkpoint, if it has one.

    The shapes of the weights do not depend on these fields. The activation of a
    checkpoint of another program may be unknown to this program, so it is compared for
    those of bert-tf only.

    Raises:
        InputError: A field differs.
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


def check_encoder(contents: CheckpointContents, config: BertConfig) -> None:
    """Checks the sizes of a config, before records and models are built.

    `assign` checks the rest.

    Raises:
        InputError: As in `assign`.
    """
    # These weights have all sizes of the config.
    hidden = config.hidden_size
    embeddings = f"{_ENCODER}embeddings/"
    last_layer = f"{_ENCODER}encoder/layer_{config.num_hidden_layers - 1}/"
    shapes = {
        f"{embeddings}word_embeddings": (config.vocab_size, hidden),
        f"{embeddings}token_type_embeddings": (config.type_vocab_size, hidden),
        f"{embeddings}position_embeddings": (config.max_position_embeddings, hidden),
        f"{last_layer}intermediate/dense/kernel": (hidden, config.intermediate_size),
    }

    _check_complete(
        contents.source, [name for name in shapes if name not in contents.arrays]
    )
    for name, shape in shapes.items():
        _check_shape(contents.source, name, contents.arrays[name], shape)


def _check_complete(source: str, missing: Sequence[str]) -> None:
    needed = [
        n for n in missing if n.startswith(_ENCODER) and not n.startswith(_OPTIONAL)
    ]
    if needed:
        raise InputError(
            f"{source} lacks weights of this encoder, such as {needed[0]}. The "
            "checkpoint must be a BERT with at least as many layers as the config."
        )


def _check_shape(
    source: str, name: str, array: np.ndarray, shape: tuple[int, ...]
) -> None:
    if array.shape != shape:
        raise InputError(
            f"{name} has the shape {list(array.shape)} in {source}, but {list(shape)} "
            "in the model. Use the config and the number of labels of the checkpoint, "
            "or convert the checkpoint with encoder_only=True."
        )


def classifier_of(
    variables: Mapping[str, Any], contents: CheckpointContents
) -> dict[str, np.ndarray]:
    """Returns `contents.classifier` by the names of the model's head.

    Args:
        variables: The weights of the model by google-research/bert name.
        contents: The checkpoint.

    Returns:
        Dict from google-research/bert name to array; empty if the model has no head
        that Hugging Face names `classifier`, or if `contents.classifier` is empty.
    """
    kinds = [
        weight_names.classifier_rows(each) for each in weight_names.CLASSIFIER_HEADS
    ]
    if contents.dialect != "hugging_face":
        kinds.append(weight_names.span_rows("classifier"))

    for rows in kinds:
        if all(row.google in variables for row in rows):
            names = {row.hugging_face: row.google for row in rows}
            return {names[name]: array for name, array in contents.classifier.items()}
    return {}


def to_float32(array: np.ndarray) -> np.ndarray:
    """Returns floating-point numbers as float32, and other values unchanged.

    A number that is too large for float32 becomes infinite, and `check_weights` refuses
    it.
    """
    if not tf.as_dtype(array.dtype).is_floating:
        return array
    with np.errstate(over="ignore"):
        return array.astype(np.float32, copy=False)


def check_weights(contents: CheckpointContents) -> None:
    """Checks the weights and slots of a checkpoint.

    Raises:
        InputError: A tensor does not consist of floating-point numbers, or contains NaN
            or infinite values. The message names it.
    """
    arrays = {**contents.arrays, **contents.classifier, **contents.slots}
    for name, array in arrays.items():
        if array.dtype != np.float32:
            raise InputError(
                f"{contents.source}: {name} has the dtype {array.dtype}, but weights "
                "are floating-point numbers. Save the checkpoint again as float32."
            )

    invalid = [name for name, array in arrays.items() if not np.isfinite(array).all()]
    if invalid:
        raise InputError(
            f"{contents.source} has NaN or infinite values in {shortened(invalid, 3)}. "
            "The training has diverged, or the file is damaged. Use an earlier "
            "checkpoint."
        )
