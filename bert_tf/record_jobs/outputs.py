"""Checks input and output of a job, removes old records, and writes the manifest."""

import contextlib
import dataclasses
import os
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.corpus import text_formats
from bert_tf.errors import InputError
from bert_tf.record_creation import stats
from bert_tf.record_creation.records_config import RecordsConfig
from bert_tf.record_creation.segments import tfds_split
from bert_tf.record_jobs import records_job, shuffling, stages
from bert_tf.record_jobs.records_job import RecordsJob, output_stem, shard_paths
from bert_tf.storage import files, json_files
from bert_tf.storage.manifest import STATS_SUFFIX, Manifest, Shard, absolute_path
from bert_tf.storage.overwrite_rule import first_existing
from bert_tf.storage.paths import check_output_file, resolve_output
from bert_tf.tokenization.vocabulary import known_casing

# At shorter lengths, truncation removes half of the tokens of ordinary sentences too.
# Of books and of WikiText-2, with one sentence per line, truncation removes 11 and 14 %
# of the tokens at length 128, 23 and 26 % at 64, and 45 and 56 % at 32.
_ORDINARY_LENGTH = 64
_TRUNCATION_WARNING = 0.25


def plan_job(
    config: RecordsConfig,
    input_file: str,
    output_files: Sequence[str],
    overwrite: bool,
    is_local: bool,
) -> RecordsJob | None:
    """Checks input, vocabulary and output of `base.create_records`; writes nothing.

    Returns the job, or None if its records are already complete. In this case, a work
    folder that is left is removed. `is_local` says whether the work folder must be
    local.
    """
    stages.forget_vocabulary()
    # A run through a link and a run on its target must have the same work folder.
    output_files = tuple(map(resolve_output, output_files))
    if len(output_files) > 1:
        config = dataclasses.replace(config, num_output_shards=len(output_files))

    # From here on, `do_lower_case` is not None: the casing of the vocabulary if known.
    is_cased = known_casing(config.vocab_file, config.do_lower_case) is False
    config = dataclasses.replace(config, do_lower_case=not is_cased)
    vocabulary = stages.vocabulary(config)

    # The properties that identify the input.
    if config.tfds_name:
        split = tfds_split(config)
        paths = []
        inputs = [
            {
                "path": config.tfds_name,
                "name": split.name,
                "examples": split.num_examples,
            }
        ]
    else:
        formats = text_formats.input_files(
            input_file, config.input_format, config.text_feature
        )
        paths = list(formats)
        config = config.with_format_of(formats.values())
        inputs = []
        for path, file_format in formats.items():
            size, digest = files.size_and_sha256(path)
            inputs.append({"path": path, "bytes": size, "sha256": digest})
            if config.input_format == "auto":
                inputs[-1]["format"] = file_format

    stem = output_stem(output_files[0])
    job = RecordsJob(
        config,
        stem,
        fingerprint=config.fingerprint(vocabulary.sha256, inputs),
        inputs=inputs,
        shards=shard_paths(output_files, config),
        work_folder=records_job.work_folder_path(stem, is_local),
    )

    _check_output_paths(job, paths, input_file)
    if _is_complete(job):
        if records_job.has_intermediate_files(job):
            records_job.remove_work_folder(job.work_folder)
        return None
    if not overwrite:
        _check_no_other_records(job)
    return job


def _check_output_paths(
    job: RecordsJob, input_paths: Sequence[str], patterns: str
) -> None:
    """Checks that outputs are regular files or absent, and not an input of this or a later run."""
    vocabulary = job.config.vocab_file
    inputs = [*input_paths, vocabulary, f"{vocabulary}.json"]
    if os.path.realpath(vocabulary) in map(os.path.realpath, input_paths):
        raise InputError(
            f"vocab_file {vocabulary} is in input_file too. Give another input_file."
        )
    globs = [absolute_path(pattern.strip()) for pattern in patterns.split(",")]
    if len(set(map(absolute_path, job.output_paths))) < len(job.output_paths):
        raise InputError(
            f"output_file names a file twice: {job.shard_paths}. Give other names."
        )
    for path in job.output_paths:
        check_output_file(path, inputs)
        if any(pathlib.PurePath(absolute_path(path)).match(glob) for glob in globs):
            raise InputError(
                f"output_file {path} matches input_file, so the next run would read "
                "it; give another output_file."
            )


def check_documents(job: RecordsJob, counts: Mapping[str, np.ndarray]) -> None:
    """Checks that each split has enough documents; warns if files became one document.

    Random next sentences need two documents. `counts` has, for each split, the numbers
    of documents and of sentences: int64 [2].
    """
    required = 2 if job.config.paired else 1
    hint = ""
    if len(job.inputs) > 1 and not job.config.documents_end_at_files:
        hint = (
            " A document continues in the next file unless a blank line ends it. If "
            "each file is a document, give --break_documents_at_files."
        )

    for split, (count, _) in counts.items():
        if count < required and job.config.eval_fraction:
            raise InputError(
                f"With eval_fraction={job.config.eval_fraction}, the {split} records "
                f"get {count} documents of {job.input_names}, but they need at least "
                f"{required}. Give more documents or another eval_fraction.{hint}"
            )
        if count == 0:
            raise InputError(f"There is no text in {job.input_names}.")
        if count < required:
            raise InputError(
                f"{job.input_names} is one document, but a random next sentence comes "
                "from another document. Separate documents by blank lines, or give "
                f"objective=mlm, which creates records without sentence pairs.{hint}"
            )

    # Files that were meant to be documents have no blank lines at their ends.
    documents = sum(count for count, _ in counts.values())
    inputs = len(job.inputs)
    if hint and documents < inputs:
        print(
            f"warning: {inputs:,} files gave {documents:,} documents.{hint}",
            file=sys.stderr,
        )


def check_truncation(job: RecordsJob, tokens: np.ndarray) -> None:
    """Raises an `InputError` if truncation removes more than half of the tokens.

    If `max_seq_length` is below 64, the limit is 95 %; with `allow_truncation`, there
    is no limit. If more than a quarter is removed, a warning is printed. `tokens`,
    int64 [2], is the sum of `shuffling.count_tokens` over all rows.
    """
    length = job.config.max_seq_length
    removed = tokens[1] / max(tokens.sum(), 1)
    message = (
        f"Truncation to --max_seq_length={length} removes {removed:.1%} of the tokens "
        f"of {job.input_names}. If its lines are paragraphs, give --split_sentences, "
        "else a larger --max_seq_length."
    )

    limit = 0.5 if length >= _ORDINARY_LENGTH else 0.95
    if removed > limit and not job.config.allow_truncation:
        raise InputError(
            f"{message} To create the records regardless, give --allow_truncation."
        )
    if removed > _TRUNCATION_WARNING:
        print(f"warning: {message}", file=sys.stderr)


def _existing_manifest(job: RecordsJob) -> Manifest:
    """Returns the manifest of the output; an empty one if it is missing or damaged."""
    with contextlib.suppress(InputError):
        return Manifest.read(job.manifest_path)
    return Manifest(job.manifest_path, (), {})


def _is_complete(job: RecordsJob) -> bool:
    """Whether an earlier run of this job has written all shards, at these paths."""
    manifest = _existing_manifest(job)
    listed = map(manifest.find_shard, job.shard_paths)
    return (
        all(map(files.exists, job.output_paths))
        and manifest.facts.get("fingerprint") == job.fingerprint
        and all(shard is not None and shard.has_recorded_size() for shard in listed)
    )


def _shards_to_remove(job: RecordsJob) -> list[str]:
    """Returns the shards of the existing manifest that this job does not overwrite.

    A file whose content differs from the manifest was replaced by another program, so
    it is not included.
    """
    kept = set(map(absolute_path, job.shard_paths))
    return [
        shard.path
        for shard in _existing_manifest(job).shards
        if shard.path not in kept
        and shard.has_recorded_size()
        and shard.has_recorded_checksum()
    ]


def _check_no_other_records(job: RecordsJob) -> None:
    """Checks that no output file exists, unless an earlier run of this job wrote it."""
    existing = first_existing("", job.output_paths)
    manifest = _existing_manifest(job)
    removed = _shards_to_remove(job)
    is_same = manifest.facts.get("fingerprint") == job.fingerprint and not removed
    if existing and not is_same and not records_job.has_intermediate_files(job):
        warning = f"; that also removes {', '.join(removed)}" if removed else ""
        raise InputError(
            f"{existing} exists and was created with {_difference(job, manifest)}. Give "
            f"another output_file, or overwrite=True to replace it{warning}."
        )


def _difference(job: RecordsJob, manifest: Manifest) -> str:
    """Describes the first difference between a manifest and this job."""
    if not manifest.facts:
        return "unknown settings"
    flags = manifest.facts.get("flags") or {}
    for name, value in dataclasses.asdict(job.config).items():
        if (
            name not in ("vocab_file", "allow_truncation")
            and flags.get(name, value) != value
        ):
            return f"{name}={flags[name]}, not {value}"
    if manifest.facts.get("fingerprint") == job.fingerprint:
        return "other names of its files"
    return "another input or vocabulary, or by another version of this program"


def remove_old_records(job: RecordsJob) -> None:
    """Removes the records that this job replaces, and prints their shards.

    Shards that an interrupted run of this job has written are kept. If the size of such
    a shard has changed since, the file that marks the shard as complete is removed, so
    that the shard is written again.
    """
    removed = _shards_to_remove(job)
    if removed:
        print(
            f"Removing the shards of the replaced records, which {job.manifest_path} "
            f"lists: {', '.join(removed)}",
            file=sys.stderr,
        )
    for path in [job.completed_path, *removed, job.manifest_path]:
        files.remove(path)

    # The folder is listed, because a network file system may go on to report a file as
    # missing after a call has looked for the file.
    existing = {*files.list_folder(job.intermediate_folder)}
    for key in job.shard_keys:
        marker = job.path("shard", *key)
        is_written = os.path.basename(marker) in existing
        if is_written and not _shard(job, *key).has_recorded_size():
            files.remove(marker)


def _shard(job: RecordsJob, split: str, number: int) -> Shard:
    """Returns the entry of a complete shard in the manifest."""
    facts = json_files.read(job.path("shard", split, number), own=True)
    return Shard(absolute_path(job.shards[split][number]), split=split, **facts)


def write_manifest(
    job: RecordsJob,
    counts: Mapping[str, np.ndarray],
    plans: Mapping[str, Sequence[shuffling.Part]],
) -> dict[str, Any]:
    """Checks the numbers of rows; writes statistics, manifest and `<stem>.COMPLETED`.

    The files are written in this order. Returns the report for each split. `counts`
    has, for each split, the numbers of documents and of sentences: int64 [2].
    """
    config = job.config
    vocabulary = stages.vocabulary(config)

    # The statistics of a split are the sum of the statistics of its parts.
    reports = {}
    for split, plan in plans.items():
        parts = (
            stats.Stats.from_arrays(
                shuffling.load_arrays(job.path("part_stats", split, number))
            )
            for number in range(len(plan))
        )
        total = sum(parts, stats.Stats.empty(config))
        total.documents, total.sentences = counts[split].tolist()
        reports[split] = total.report()

    facts = {
        "fingerprint": job.fingerprint,
        "flags": dataclasses.asdict(config),
        "vocabulary_sha256": vocabulary.sha256,
        "vocab_size": vocabulary.size,
        "do_lower_case": config.do_lower_case,
        "max_seq_length": config.max_seq_length,
        "max_predictions_per_seq": config.max_predictions_per_seq
        if config.masking == "static"
        else None,
        **{
            name: {split: report[name] for split, report in reports.items()}
            for name in ("documents", "sentences", "examples")
        },
        "inputs": job.inputs,
    }

    # Each planned example must have arrived in a shard, once.
    shards = tuple(_shard(job, *key) for key in job.shard_keys)
    for split, report in reports.items():
        written = sum(shard.examples for shard in shards if shard.split == split)
        planned = sum(part.rows for part in plans[split])
        if not written == planned == report["examples"]:
            raise InputError(
                f"{planned:,} examples of {split} were planned, {report['examples']:,} "
                f"were made, and {written:,} are in the shards, so the runner lost or "
                f"repeated work. Remove {job.work_folder} and give another runner."
            )

    files.write_json(job.stem + STATS_SUFFIX, reports)
    Manifest(job.manifest_path, shards, facts).write()
    files.write_text(job.completed_path, job.fingerprint + "\n")
    return reports
