"""`write_weights` writes a checkpoint; `convert` converts one and verifies the result.

`check_target` checks that the folder to write contains only a checkpoint, which may be
replaced.
"""

import dataclasses
import itertools
import logging
import os
import re
from collections.abc import Iterator, Mapping

import numpy as np

from bert_tf.config import BertConfig
from bert_tf.conversion.checkpoint_contents import CheckpointContents, check_weights
from bert_tf.conversion.checkpoint_vocabulary import with_tokenizer
from bert_tf.conversion.reader import module_of, read_weights
from bert_tf.conversion.weight_assignment import AssignmentReport, assign, check_config
from bert_tf.conversion.weight_names import CLASSIFIER_HEADS
from bert_tf.errors import InputError, check_choice
from bert_tf.head_config import HeadConfig
from bert_tf.modeling import BertEncoder
from bert_tf.storage import files, json_files
from bert_tf.storage.checkpoint_formats import (
    DIALECTS,
    WRITABLE,
    WRITABLE_DIALECTS,
    writers_of,
)
from bert_tf.storage.overwrite_rule import first_foreign, names_in, refusal
from bert_tf.storage.paths import is_inside, real_path, resolve_output
from bert_tf.training.lifecycle.run_state import run_of

_LOG = logging.getLogger(__name__)

_PREFIX = re.compile(r"(bert_model\.ckpt|model\.ckpt-\d+)\.")  # of files of TensorFlow


def check_target(folder: str, dialect: str, *sources: str) -> None:
    """Checks that writing a checkpoint to a folder removes no other data.

    Raises:
        InputError: The folder is a file, belongs to a run of training, contains one of
            `sources` (the paths of the checkpoint that is read), or contains anything
            else than an undamaged checkpoint of this dialect.
    """
    target = real_path(resolve_output(folder, is_folder=True))
    if (run := run_of(target)) is not None:
        raise _refusal(folder, f"belongs to the run in {run}")
    for source in sources:
        if is_inside(source, target):
            raise _refusal(
                folder, f"belongs to the checkpoint that is read from {source}"
            )

    # All files must be those of a checkpoint of the dialect.
    written = WRITABLE[dialect]
    if foreign := first_foreign(target, written.is_own_file):
        reason = (
            "which is not a file of a checkpoint that bert-tf writes in the dialect"
        )
        raise _refusal(folder, f"contains {foreign}, {reason} {dialect}")
    names = list(names_in(target))
    if not names:
        return

    # A folder of the original programs may have the checkpoints of several steps.
    prefixes = sorted({match[1] for name in names if (match := _PREFIX.match(name))})
    if len(prefixes) > 1:
        raise _refusal(
            folder,
            f"contains several checkpoints, such as {prefixes[0]} and {prefixes[1]}",
        )

    # Object stores have no temporary folders: a killed program leaves a folder without
    # this file.
    if written.last_file not in names and "://" not in target:
        reason = f"is not a checkpoint of the dialect {dialect}"
        raise _refusal(folder, f"{reason}: it has no {written.last_file}")

    # The files of another model have these names too.
    if "config.json" in names:
        values = json_files.read(f"{target}/config.json")
        kind = values.get("model_type", values.get("class_name"))
        if kind not in (None, "bert", "BertBackbone"):
            raise _refusal(
                folder, f"config.json is that of a model of the type {kind!r}"
            )


def _refusal(folder: str, reason: str) -> InputError:
    return refusal(folder, f"but {reason}", "Give the path of a new folder")


def write_weights(
    contents: CheckpointContents,
    folder: str,
    dialect: str,
    texts: Mapping[str, str] = {},
) -> str:
    """Writes a checkpoint in a dialect; verifies it before it replaces an older one.

    Args:
        contents: The contents to write.
        folder: A folder that is new, is empty or contains only a checkpoint of the same
            dialect, which is replaced.
        dialect: One of `WRITABLE_DIALECTS`. Only "google" stores Adam's moments
            (slots), which google-research/bert needs to resume training.
        texts: The texts of further files in the folder, by file name. `check_target`
            must know the names.

    Returns:
        The path of the checkpoint, as `read_weights` accepts it.

    Raises:
        InputError: The folder has other files, `contents` is not valid or has no
            config, or the dialect cannot store the vocabulary or the head. No dialect
            stores a masked LM whose output layer is not the word embeddings, or a head
            of unknown kind (`CheckpointContents.classifier`).
    """
    path, written = _write_checked(contents, folder, dialect, texts=texts)
    for line in _differences(contents, written, dialect):
        _LOG.warning("warning: %s: %s", path, line)
    return path


def _check_heads(contents: CheckpointContents, dialect: str) -> None:
    if contents.facts.get("head") and "facts" not in WRITABLE[dialect].stores:
        raise InputError(
            f"{contents.source} has {HeadConfig.from_dict(contents.facts['head'])}, "
            f"which only the dialect {writers_of('facts')} can store. Give "
            "encoder_only=True to write the encoder without heads."
        )

    if contents.classifier and contents.dialect != "hugging_face":
        raise InputError(
            f"{contents.source} does not tell whether its head classifies tokens or "
            "texts, or predicts spans. In Python, load it into a model of that kind "
            "and call save_checkpoint, or give encoder_only=True to write the encoder "
            "without heads."
        )
    if contents.classifier:
        raise InputError(
            f"{contents.source}/config.json does not tell the kind of the head "
            "'classifier': its architectures must name one of "
            f"{', '.join(CLASSIFIER_HEADS)}. Add the name of the class, or give "
            "encoder_only=True to write the encoder without heads."
        )

    # Every dialect stores the output weights of a masked LM as the word embeddings.
    masked_lm = any(name.startswith("cls/predictions/") for name in contents.arrays)
    if masked_lm and not contents.tied_masked_lm:
        raise InputError(
            f"{contents.source} has a masked LM whose output weights are not tied to "
            "the word embeddings. No dialect that bert-tf writes can store it. Give "
            "encoder_only=True to write the encoder without heads."
        )


def convert(
    source: str,
    target: str,
    dialect: str,
    slots: bool = False,
    config: BertConfig | None = None,
    encoder_only: bool = False,
    vocab_file: str | None = None,
    do_lower_case: bool | None = None,
) -> str:
    """Converts a checkpoint, and compares the written checkpoint with the source.

    A config, vocabulary or casing that is not None replaces that of the source.

    Args:
        source: A path that `read_weights` accepts.
        target: The folder to write. An earlier checkpoint in it is unchanged if the
            conversion fails.
        dialect: One of `WRITABLE_DIALECTS`.
        slots: Whether to write Adam's moments (slots) too; only "google" can store
            them, and the source must have them.
        encoder_only: Whether to write the encoder with its pooler, but no heads.

    Returns:
        A report for the user: the number of weights written, the greatest difference
        between the outputs of the source and of the written checkpoint, and warnings.

    Raises:
        InputError: Reading or writing failed, an argument does not fit the source, or
            the written checkpoint differs from the source.
    """
    check_choice(WRITABLE_DIALECTS, "dialect", dialect)
    if slots and "slots" not in WRITABLE[dialect].stores:
        raise InputError(
            f"slots=True needs the dialect {writers_of('slots')}. Received: "
            f"{dialect!r}."
        )

    # The paths are checked before the source is read.
    check_target(target, dialect, source)
    contents = read_weights(source, slots=slots)
    if slots and not contents.slots:
        raise InputError(f"{source} has no moments of Adam. Leave out slots=True.")

    # Config, vocabulary and casing that are given must fit the weights.
    config = config or contents.require_config()
    check_config(contents, config)
    contents = dataclasses.replace(contents, config=config)
    contents = with_tokenizer(contents, vocab_file, do_lower_case)

    if encoder_only:
        contents = contents.encoder_only()

    # Check that the weights are complete, and that the written ones give equal outputs.
    report = assign(BertEncoder(config), contents)
    _, written = _write_checked(contents, target, dialect, source, contents.source)
    difference = output_difference(contents, written)

    lines = [
        f"{source} ({contents.dialect}) -> {target} ({dialect})",
        f"{len(contents.arrays)} weights and {len(contents.slots)} slots, read back "
        "bit for bit.",
        f"Greatest difference of the outputs on a fixed input: {difference}.",
        *_warnings(contents, written, report, dialect),
        *dict.fromkeys(f"Note: {note}." for note in contents.notes + written.notes),
    ]
    return "\n".join(lines)


def _write_checked(
    contents: CheckpointContents,
    target: str,
    dialect: str,
    *sources: str,
    texts: Mapping[str, str] = {},
) -> tuple[str, CheckpointContents]:
    """Does the work of `write_weights`; returns the path and the contents read from it.

    `sources` are the paths of the checkpoint from which the contents were read.
    """
    check_choice(WRITABLE_DIALECTS, "dialect", dialect)
    contents.require_config()
    _check_heads(contents, dialect)
    check_weights(contents)
    check_target(target, dialect, *sources)

    def write_and_read(folder: str) -> tuple[str, CheckpointContents]:
        files.make_folder(folder)
        for name, text in texts.items():
            files.write_text(os.path.join(folder, name), text)
        path: str = module_of(dialect).write(folder, contents)
        written = read_weights(path, slots=bool(contents.slots))
        _check_same(contents, written)
        return path, written

    target = target.rstrip("/") or target
    # Object stores cannot rename folders, so a local copy is read first.
    if "://" in target:
        with (
            files.temporary_folder() as folder,
            files.explain_write_errors(folder),
        ):
            write_and_read(folder)

    with files.atomic_folder(target, WRITABLE[dialect].last_file) as folder:
        path, written = write_and_read(folder)
        if folder != target:
            check_target(target, dialect, *sources)
    return target + path.removeprefix(folder), written


def _warnings(
    contents: CheckpointContents,
    written: CheckpointContents,
    report: AssignmentReport,
    dialect: str,
) -> Iterator[str]:
    """Yields lines for the report of `convert`: missing and ignored parts, and `_differences`."""
    if report.missing:
        yield f"Missing in the source: {', '.join(report.missing)}."

    yield from _differences(contents, written, dialect)

    if contents.vocabulary is None and contents.tokenizer_problem:
        yield (
            "No vocab.txt was written, because the tokenizer gives other ids than the "
            f"tokenizer of google-research/bert: {contents.tokenizer_problem}. With "
            "vocab_file, it is written."
        )

    if extra := contents.require_config().extra:
        yield f"Unknown keys of the config, ignored: {', '.join(extra)}."
    if contents.unknown:
        yield f"Left out, not weights of a BERT: {', '.join(contents.unknown)}."


def _differences(
    contents: CheckpointContents, written: CheckpointContents, dialect: str
) -> Iterator[str]:
    """Yields lines on how the programs that use a dialect treat these contents differently."""
    config = contents.require_config()
    author = DIALECTS[dialect].author
    supported = getattr(module_of(dialect), "SUPPORTED_SETTINGS", {})
    settings = [
        f"{name} {getattr(config, name)}"
        for name, values in supported.items()
        if getattr(config, name) not in values
    ]
    if settings:
        yield (
            f"{author} does not support these settings and computes another model: "
            f"{', '.join(settings)}."
        )

    stores = WRITABLE[dialect].stores
    task_type = contents.facts.get("task_type", "embedding")
    # A model without head is for vectors of texts in any case.
    if task_type != "embedding" and not {"facts", "labels"}.intersection(stores):
        yield f"{author} does not store that the task is {task_type}."

    # How vectors of texts are computed.
    embedding = contents.facts.get("embedding") or {}
    kept = written.facts.get("embedding") or {}
    lost = [name for name, value in embedding.items() if kept.get(name) != value]
    if lost and "facts" not in stores:
        reason = f"the dialect {dialect} cannot store {', '.join(lost)}"
        yield f"Left out settings of text vectors: {embedding.get('problem', reason)}."


def _check_same(contents: CheckpointContents, written: CheckpointContents) -> None:
    expected = {**contents.arrays, **contents.slots}
    actual = {**written.arrays, **written.slots}
    lost = sorted(expected.keys() - actual.keys())
    if lost:
        raise InputError(
            f"The dialect {written.dialect!r} cannot store {', '.join(lost)}: they are "
            f"missing in {written.source}. Convert to another dialect."
        )

    # The weights are equal bit by bit.
    for name, array in expected.items():
        if not np.array_equal(array.view(np.int32), actual[name].view(np.int32)):
            raise InputError(
                f"{written.source} differs from the written weights, first in {name}. "
                "Check the disk and convert again."
            )

    # The vocabulary is read as it was written.
    before, after = contents.vocabulary or [], written.vocabulary or []
    if before != after:
        pairs = itertools.zip_longest(before, after)
        token = next(one for one, two in pairs if one != two)
        raise InputError(
            f"The dialect {written.dialect!r} cannot store the vocabulary of "
            f"{contents.source}, such as the token {token!r:.60}. Remove white space "
            "from its tokens."
        )


def output_difference(one: CheckpointContents, two: CheckpointContents) -> float:
    """Returns the largest difference between the encoder outputs of two checkpoints.

    The outputs (sequence and pooled) are those for a fixed input. Each model uses the
    config of its own checkpoint, so errors in a converted config change the result too.
    """
    pairs = zip(_encoder_outputs(one), _encoder_outputs(two), strict=True)
    return float(np.max([np.abs(first - second).max() for first, second in pairs]))


def _encoder_outputs(contents: CheckpointContents) -> list[np.ndarray]:
    config = contents.require_config()
    model = BertEncoder(config, seed=0)
    assign(model, contents)

    # [2, S]: a whole sequence, and one with padding.
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
    return [np.asarray(outputs[name]) for name in ("sequence_output", "pooled_output")]
