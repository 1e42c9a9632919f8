"""`write_weights` writes a checkpoint; `convert` converts a checkpoint and verifies the result."""

import dataclasses
import fnmatch
import math
import os
import re
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from bert_tf import atomic_files
from bert_tf.config import BertConfig
from bert_tf.conversion import google
from bert_tf.conversion.checkpoint_contents import (
    AssignmentReport,
    CheckpointContents,
    assign,
    check_encoder,
)
from bert_tf.conversion.dialects import DIALECTS, WRITABLE_DIALECTS
from bert_tf.conversion.read_checkpoint import read_weights
from bert_tf.conversion.weight_table import CLASSIFIER_HEADS
from bert_tf.errors import InputError
from bert_tf.file_checks import is_inside
from bert_tf.head_config import HeadConfig
from bert_tf.tokenization.vocabulary import check_vocabulary

# The files that the writer of each dialect creates; first the file that it always writes last.
_FILES = {
    "bert-tf": ("weights.json", "model.safetensors", "bert_config.json", "vocab.txt"),
    "hugging_face": ("model.safetensors", "config.json", "tokenizer_config.json", "vocab.txt"),
    "google": (
        "checkpoint", "bert_model.ckpt.*", "model.ckpt-*", "bert_config.json",
        "tokenizer_config.json", "vocab.txt",
    ),
}  # fmt: skip
_PREFIX = re.compile(r"(bert_model\.ckpt|model\.ckpt-[^.]*)\.")


def write_weights(contents: CheckpointContents, folder: str, dialect: str) -> str:
    """Writes a checkpoint in the given dialect (format).

    Args:
        contents: The contents to write.
        folder: The folder to write. If the folder exists, it must be empty or contain a
            checkpoint of the same dialect and no other files; the checkpoint is replaced.
        dialect: One of `WRITABLE_DIALECTS`. Only "google" stores Adam's moments (slots).
            google-research/bert needs the slots to resume training.

    Returns:
        The path of the checkpoint, as `read_weights` accepts it.

    Raises:
        InputError: The dialect is unknown or can only be read, `folder` is a file or contains other
            files than those of such a checkpoint, `contents` has no config, or it has
            a head that the dialect cannot store: an output layer of the masked LM that is not the
            word embeddings, a head of unknown kind (`CheckpointContents.classifier`), or one with
            the layers of `HeadConfig`.
    """
    write = _writer(dialect)
    contents.require_config()
    _check_heads(contents, dialect)
    _check_target(folder, dialect)
    return write(folder, contents)


def _writer(dialect: str) -> Callable[[str, CheckpointContents], str]:
    write = DIALECTS[dialect].write if dialect in DIALECTS else None
    if write is None:
        names = ", ".join(WRITABLE_DIALECTS)
        raise InputError(f"dialect must be one of {names}. Received: {dialect!r}.")
    return write


def _check_target(folder: str, dialect: str, *sources: str) -> None:
    """Raises `InputError` if replacing the folder would remove something else than a checkpoint.

    Args:
        folder: The folder to write.
        dialect: The dialect to write.
        sources: Paths of the checkpoint that is read, which must not be in the folder.
    """
    from tensorflow.io import gfile

    from bert_tf.training.lifecycle.run_state import run_of

    target = atomic_files.resolve_output(folder, is_folder=True)
    names = sorted(gfile.listdir(target)) if gfile.exists(target) else []
    if not names:
        return
    others = [n for n in names if not any(fnmatch.fnmatch(n, f) for f in _FILES[dialect])]
    if others:
        raise InputError(
            f"{folder} would be replaced, but contains {others[0]}, which is not a file of a "
            f"checkpoint that bert-tf writes in the dialect {dialect}. Give the path of a new "
            "folder."
        )
    prefixes = sorted({match[1] for name in names if (match := _PREFIX.match(name))})
    if len(prefixes) > 1:
        raise InputError(
            f"{folder} would be replaced, but contains several checkpoints, such as {prefixes[0]} "
            f"and {prefixes[1]}. Give the path of a new folder."
        )
    last = _FILES[dialect][0]
    # Object stores have no temporary folders: a killed program leaves a folder without this file.
    if last not in names and "://" not in target:
        raise InputError(
            f"{folder} would be replaced, but is not a checkpoint of the dialect {dialect}: it has "
            f"no {last}. Give the path of a new folder."
        )
    run = run_of(target)
    if run is not None:
        raise InputError(
            f"{folder} would be replaced, but belongs to the run in {run}. Give the path of a new "
            "folder."
        )
    for source in sources:
        if is_inside(source, target) or is_inside(target, source):
            raise InputError(
                f"{folder} would be replaced, but belongs to the checkpoint that is read from "
                f"{source}. Give the path of a new folder."
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
            `write_weights`), its vocabulary is not valid and none is given, or a tensor of the
            written checkpoint is missing or differs from the source.
    """
    from bert_tf.modeling import BertEncoder

    _writer(dialect)
    _check_target(target, dialect, source)
    contents = read_weights(source, slots=slots and dialect == "google")
    _check_target(target, dialect, source, contents.source)
    given = {key: value for key, value in facts.items() if value is not None}
    if contents.vocabulary is not None and "vocabulary" not in given:
        check_vocabulary(contents.vocabulary, f"the vocabulary of {contents.source}")
    contents = dataclasses.replace(contents, config=config or contents.config, **given)
    if encoder_only:
        contents = contents.encoder_only()
    check_encoder(contents, contents.require_config())
    report = assign(BertEncoder(contents.require_config()), contents)
    written = _write_checked(contents, target, dialect, source)
    lines = [
        f"{source} ({contents.dialect}) -> {target} ({dialect})",
        f"{len(contents.arrays)} weights and {len(contents.slots)} slots, read back bit for bit.",
        _describe_difference(output_difference(contents, written)),
        *_warnings(contents, report, dialect),
    ]
    return "\n".join(lines)


def _describe_difference(difference: float) -> str:
    if math.isnan(difference):
        return (
            "warning: the outputs on a fixed input are not finite, although all weights are. The "
            "weights are too large to be those of a trained model."
        )
    return f"Greatest difference of the outputs on a fixed input: {difference}."


def _write_checked(
    contents: CheckpointContents, target: str, dialect: str, source: str
) -> CheckpointContents:
    """Writes a checkpoint, and reads it before it replaces an earlier one; returns what was read.

    Raises:
        InputError: See `write_weights` and `_check_same`; or `target` has changed during the work.
    """

    def write_and_read(folder: str) -> CheckpointContents:
        path = write_weights(contents, folder, dialect)
        written = read_weights(path, slots=bool(contents.slots))
        _check_same(contents, written)
        return written

    if "://" not in target:
        with atomic_files.staging_folder(target) as folder:
            written = write_and_read(folder)
            _check_target(target, dialect, source, contents.source)
        return written
    # Object stores cannot rename folders, so a local copy is read first.
    with tempfile.TemporaryDirectory() as folder:
        write_and_read(os.path.join(folder, "checkpoint"))
    return write_and_read(target)


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
    # Bytes are compared, because NaN is not equal to NaN.
    changed = [name for name in expected if not _same_bytes(expected[name], actual[name])]
    if changed:
        raise InputError(
            f"{written.source} differs from the written weights, first in {changed[0]}. Check the "
            "disk and convert again."
        )


def _same_bytes(one: np.ndarray, two: np.ndarray) -> bool:
    return one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes()


def output_difference(one: CheckpointContents, two: CheckpointContents) -> float:
    """Returns the largest absolute difference between the encoder outputs of two checkpoints.

    The sequence and pooled outputs are computed on a fixed input. Each model uses the config of its
    own checkpoint, so errors in a converted config also change the result. NaN if an output is not
    finite, because such outputs cannot be compared.
    """
    first, second = _encoder_outputs(one), _encoder_outputs(two)
    if not all(np.isfinite(each).all() for each in (*first.values(), *second.values())):
        return math.nan
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
