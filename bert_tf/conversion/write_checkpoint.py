"""`write_weights` writes a checkpoint; `convert` converts a checkpoint and verifies the result.

Imports foundation modules and also `modeling`, and the other modules of this package.
"""

import dataclasses
import os
import re
from typing import Any

import numpy as np

from bert_tf.config import BertConfig
from bert_tf.conversion import google
from bert_tf.conversion.checkpoint_contents import AssignmentReport, CheckpointContents, assign
from bert_tf.conversion.dialects import DIALECTS, WRITABLE_DIALECTS
from bert_tf.conversion.read_checkpoint import read_weights
from bert_tf.conversion.weight_table import CLASSIFIER_HEADS
from bert_tf.errors import InputError
from bert_tf.head_config import HeadConfig

# The files that the writers of all dialects create.
_CHECKPOINT_FILE = re.compile(
    r"model\.safetensors|weights\.json|bert_config\.json|config\.json|tokenizer_config\.json"
    r"|vocab\.txt|checkpoint|(bert_model|model)\.ckpt.*"
)


def write_weights(contents: CheckpointContents, folder: str, dialect: str) -> str:
    """Writes a checkpoint in the given dialect (format).

    Args:
        contents: The contents to write.
        folder: The folder to write. If the folder exists, it must be empty or contain a
            checkpoint, which is replaced.
        dialect: One of `WRITABLE_DIALECTS`. Only "google" stores Adam's moments (slots).
            google-research/bert needs the slots to resume training.

    Returns:
        The path of the checkpoint, as `read_weights` accepts it.

    Raises:
        InputError: The dialect is unknown or can only be read, `folder` is a file or contains other
            files than those of a checkpoint, `contents` has no config, or it has
            a head that the dialect cannot store: an output layer of the masked LM that is not the
            word embeddings, a head of unknown kind (`CheckpointContents.classifier`), or one with
            the layers of `HeadConfig`.
    """
    write = DIALECTS[dialect].write if dialect in DIALECTS else None
    if write is None:
        names = ", ".join(WRITABLE_DIALECTS)
        raise InputError(f"dialect must be one of {names}. Received: {dialect!r}.")
    contents.require_config()
    _check_heads(contents, dialect)
    if "://" not in folder:
        folder = os.path.realpath(folder)  # Otherwise, a link would be replaced by a folder.
    _check_target(folder)
    return write(folder, contents)


def _check_target(folder: str) -> None:
    """Raises `InputError` if replacing the folder would remove other files than a checkpoint."""
    from tensorflow.io import gfile

    if gfile.exists(folder) and not gfile.isdir(folder):
        raise InputError(f"{folder} is a file. Give the path of a new folder.")
    names = gfile.listdir(folder) if gfile.exists(folder) else []
    others = sorted(name for name in names if not _CHECKPOINT_FILE.fullmatch(name))
    if others:
        raise InputError(
            f"{folder} would be replaced, but contains {others[0]}, which is not a file of a "
            "checkpoint that bert-tf writes. Give the path of a new folder."
        )


def _check_heads(contents: CheckpointContents, dialect: str) -> None:
    if contents.extra.get("head") and dialect != "bert-tf":
        raise InputError(
            f"{contents.source} has {HeadConfig.from_dict(contents.extra['head'])}, which only the "
            "dialect bert-tf can store. Give encoder_only=True to write the encoder without heads."
        )
    if contents.classifier:
        raise InputError(
            f"{contents.source}/config.json does not tell the kind of the head 'classifier': its "
            f"architectures must name one of {', '.join(CLASSIFIER_HEADS)}. Add the name of the "
            "class, or give encoder_only=True to write the encoder without heads."
        )
    masked_lm = any(name.startswith("cls/predictions/") for name in contents.arrays)
    if masked_lm and not contents.tied_masked_lm:
        raise InputError(
            f"{contents.source} has a masked LM whose output weights are not tied to the word "
            "embeddings. No dialect that bert-tf writes can store it. Give encoder_only=True to "
            "write the encoder without heads."
        )


def convert(
    source: str,
    target: str,
    dialect: str,
    slots: bool = False,
    config: BertConfig | None = None,
    encoder_only: bool = False,
    **facts: Any,
) -> str:
    """Converts a checkpoint, and compares the written checkpoint with the source.

    Args:
        source: A path that `read_weights` accepts.
        target: The folder to write.
        dialect: One of `WRITABLE_DIALECTS`.
        slots: Whether to write Adam's moments (slots) too; only "google" can store them.
        config: The architecture. If not None, this config replaces the config of the source.
        encoder_only: Whether to write the encoder with its pooler, but no heads.
        **facts: `vocabulary` and `do_lower_case`. A value other than None replaces the value of
            the source.

    Returns:
        A report for the user: the number of weights written, the greatest difference between the
        outputs of the source and of the written checkpoint, and warnings.

    Raises:
        InputError: Reading or writing failed, the source has a head that no dialect can store (see
            `write_weights`), or a tensor of the written checkpoint is missing or differs from the
            source.
    """
    from bert_tf.modeling import BertEncoder

    contents = read_weights(source, slots=slots and dialect == "google")
    given = {key: value for key, value in facts.items() if value is not None}
    contents = dataclasses.replace(contents, config=config or contents.config, **given)
    if encoder_only:
        contents = contents.encoder_only()
    report = assign(BertEncoder(contents.require_config()), contents)
    written = read_weights(write_weights(contents, target, dialect), slots=bool(contents.slots))
    _check_same(contents, written)
    lines = [
        f"{source} ({contents.dialect}) -> {target} ({dialect})",
        f"{len(contents.arrays)} weights and {len(contents.slots)} slots, read back bit for bit.",
        "Greatest difference of the outputs on a fixed input: "
        f"{output_difference(contents, written)}.",
        *_warnings(contents, report, dialect),
    ]
    return "\n".join(lines)


def _warnings(contents: CheckpointContents, report: AssignmentReport, dialect: str) -> list[str]:
    """Returns lines on missing weights, unsupported settings, the tokenizer and other tensors."""
    lines = []
    if report.missing:
        lines.append(f"Missing in the source: {', '.join(report.missing)}.")
    config = contents.require_config()
    unsupported = google.unsupported_settings(config) if dialect == "google" else []
    if unsupported:
        lines.append(
            "google-research/bert does not support these settings and computes another model: "
            f"{', '.join(unsupported)}."
        )
    if contents.vocabulary is None and contents.tokenizer_problem:
        lines.append(
            "No vocab.txt was written, because the tokenizer gives other ids than the tokenizer of "
            f"google-research/bert: {contents.tokenizer_problem}. With vocab_file, it is written."
        )
    if contents.unknown:
        lines.append(f"Left out, not weights of a BERT: {', '.join(contents.unknown)}.")
    return lines


def _check_same(contents: CheckpointContents, written: CheckpointContents) -> None:
    expected = {**contents.arrays, **contents.slots}
    actual = {**written.arrays, **written.slots}
    lost = sorted(expected.keys() - actual.keys())
    if lost:
        raise InputError(
            f"The dialect {written.dialect!r} cannot store {', '.join(lost)}: they are missing in "
            f"{written.source}. Convert to another dialect."
        )
    changed = [name for name in expected if not np.array_equal(expected[name], actual[name])]
    if changed:
        raise InputError(
            f"{written.source} differs from the written weights, first in {changed[0]}. Check the "
            "disk and convert again."
        )


def output_difference(one: CheckpointContents, two: CheckpointContents) -> float:
    """Returns the largest absolute difference between the encoder outputs of two checkpoints.

    The sequence and pooled outputs are computed on a fixed input. Each model uses the config of its
    own checkpoint, so errors in a converted config also change the result.
    """
    first, second = _encoder_outputs(one), _encoder_outputs(two)
    return max(float(np.abs(first[name] - second[name]).max()) for name in first)


def _encoder_outputs(contents: CheckpointContents) -> dict[str, np.ndarray]:
    from bert_tf.modeling import BertEncoder

    config = contents.require_config()
    model = BertEncoder(config, seed=0)
    assign(model, contents)
    length = min(config.max_position_embeddings, 64)
    numbers: np.ndarray = np.arange(2 * length, dtype=np.int32).reshape(2, length)
    mask = np.ones_like(numbers)
    mask[1, length // 2 :] = 0
    inputs = {
        "input_ids": numbers * 37 % config.vocab_size,
        "input_mask": mask,
        "segment_ids": numbers % config.type_vocab_size,
    }
    outputs = model(inputs)
    return {name: np.asarray(outputs[name]) for name in ("sequence_output", "pooled_output")}
