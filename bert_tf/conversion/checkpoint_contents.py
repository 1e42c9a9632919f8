"""`CheckpointContents` holds a checkpoint of any dialect.

`check_weights` checks the values that were read. A dialect is a checkpoint format, such
as "google" or "hugging_face".
"""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.errors import InputError, shortened

ENCODER = "bert/"  # the names of the weights of the encoder start with this


@dataclasses.dataclass(frozen=True)
class CheckpointContents:
    """A checkpoint, with the weight names and shapes of google-research/bert.

    Attributes:
        dialect: A key of `DIALECTS`.
        arrays: The weights as float32 arrays, by google-research/bert name.
        vocabulary: The tokens in order of their ids, or None if the checkpoint has no
            vocabulary, or if there is a `tokenizer_problem`.
        do_lower_case: Whether the tokenizer lower-cases text; None if this is unknown.
        facts: Further information from the checkpoint, such as `labels`.
        unknown: Names of the tensors in the checkpoint that are not BERT weights.
        slots: Adam's two moments of each weight, with the keys `<name>/adam_m` and
            `<name>/adam_v`. Empty if the caller did not request them.
        global_step: Number of training steps (weight updates), or None if unknown.
        tokenizer_problem: The settings of the checkpoint's tokenizer that
            `BertTokenizer` does not support, or "".
        classifier: The weights of a head of unknown kind, by Hugging Face name: the
            checkpoint does not tell whether the head classifies texts, tokens or
            choices (Model Garden: classifies texts or tokens, or predicts spans). Empty
            if the kind of the head is known; `arrays` then contains the head.
        tied_masked_lm: Whether the output weights of the masked LM are the word
            embeddings, as in all models of bert-tf. If they are not, `arrays` contains
            the masked-LM head without its output weights.
        notes: Sentences for the user, which tell how a model of bert-tf with these
            contents differs from the model of the program that wrote the checkpoint.
    """

    source: str
    dialect: str
    arrays: dict[str, np.ndarray] = dataclasses.field(repr=False)
    config: BertConfig | None = None
    vocabulary: list[str] | None = dataclasses.field(default=None, repr=False)
    do_lower_case: bool | None = None
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
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

        Raises `InputError` if the checkpoint's tokenizer gives other ids than
        `BertTokenizer`.
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
        """Returns the config, or raises `InputError` if the checkpoint has none."""
        if self.config is None:
            raise InputError(
                f"{self.source} has no bert_config.json in its folder. Give its path "
                "as bert_config_file."
            )
        return self.config

    def sha256(self) -> str:
        """Returns the SHA-256 of all weights, which does not depend on the dialect."""
        digest = hashlib.sha256()
        for name, array in sorted({**self.arrays, **self.classifier}.items()):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def with_layers(self, layers: Sequence[int]) -> "CheckpointContents":
        """Returns the contents with only the given Transformer blocks, without slots.

        `layers` are block numbers, from 0, in the new order. All other weights, such as
        embeddings, pooler and heads, are unchanged.
        """
        config = self.require_config()
        if missing := [block for block in layers if block >= config.num_hidden_layers]:
            raise InputError(
                f"init_layers has the block {missing[0]}, but {self.source} has the "
                f"blocks 0 to {config.num_hidden_layers - 1}. Give existing blocks."
            )

        # All weights except those of the blocks are kept.
        blocks = f"{ENCODER}encoder/layer_"
        arrays = {
            n: array for n, array in self.arrays.items() if not n.startswith(blocks)
        }

        # The chosen blocks are numbered from 0.
        for number, layer in enumerate(layers):
            old, new = f"{blocks}{layer}/", f"{blocks}{number}/"
            arrays |= {
                name.replace(old, new): array
                for name, array in self.arrays.items()
                if name.startswith(old)
            }

        config = dataclasses.replace(config, num_hidden_layers=len(layers))
        return dataclasses.replace(self, arrays=arrays, config=config, slots={})

    def encoder_only(self) -> "CheckpointContents":
        """Returns the contents without heads, their labels and their task type."""
        of_head = ("labels", "head", "task_type")
        return dataclasses.replace(
            self,
            arrays={n: a for n, a in self.arrays.items() if n.startswith(ENCODER)},
            slots={n: a for n, a in self.slots.items() if n.startswith(ENCODER)},
            facts={k: value for k, value in self.facts.items() if k not in of_head},
            classifier={},
        )


def to_float32(array: np.ndarray) -> np.ndarray:
    """Converts a floating-point array to float32; returns any other array unchanged.

    A number that is too large for float32 becomes infinite, and `check_weights` raises
    an error.
    """
    if not tf.as_dtype(array.dtype).is_floating:
        return array
    with np.errstate(over="ignore"):
        return array.astype(np.float32, copy=False)


def check_weights(contents: CheckpointContents) -> None:
    """Checks that all weights and slots are float32, without NaN or infinite values."""
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
