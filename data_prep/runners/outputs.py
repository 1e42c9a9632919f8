"""The output: what is there before a run, and what says afterwards what was made.

Imports `files`, `errors`; TensorFlow inside functions.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf import files
from bert_tf.errors import InputError, plain_message
from data_prep.pretraining_data import reading, stats
from data_prep.pretraining_data.settings import RecordsConfig
from data_prep.runners import shards, stages

IDENTITY = "identity"
FORMAT = "bert_tf pretraining records"


@dataclasses.dataclass(frozen=True)
class Job:
    """What is to be made of what.

    Attributes:
        config: What decides the bytes.
        base: The names' common part, `shards.stem` of the output.
        fingerprint: Of config, vocabulary and input.
        inputs: Path, bytes and SHA-256 of each input.
        segments: The input, cut.
        shards: The names of the shards of each split.
    """

    config: RecordsConfig
    base: str
    fingerprint: str
    inputs: tuple[dict[str, Any], ...]
    segments: tuple[reading.Segment, ...]
    shards: dict[str, list[str]]

    @property
    def work_folder(self) -> str:
        """Local folder for the intermediate files: hidden, beside the output if that is local."""
        folder, name = os.path.split(self.base)
        if "://" in self.base:
            digest = hashlib.sha256(self.base.encode()).hexdigest()[:16]
            return os.path.join(tempfile.gettempdir(), f"bert_tf_{name}_{digest}.work")
        return os.path.join(folder, f".{name}.work")

    @property
    def parts_folder(self) -> str:
        """Folder for the intermediate files of many machines: hidden, beside the output."""
        folder, name = os.path.split(self.base)
        return os.path.join(folder, f".{name}.parts")

    @property
    def names(self) -> list[str]:
        """All shards."""
        return [name for split in self.shards.values() for name in split]

    @property
    def identity(self) -> str:
        """Of the content and the names of what is to be made; for the work folder."""
        return "\n".join([self.fingerprint, *(_name_in_manifest(self, n) for n in self.names)])

    @property
    def input_names(self) -> str:
        """The inputs, for a message."""
        names = [str(each["path"]) for each in self.inputs]
        return ", ".join(names if len(names) < 4 else [*names[:3], "..."])


def prepare(
    config: RecordsConfig, input_file: str, output_files: tuple[str, ...], overwrite: bool
) -> tuple[Job, bool]:
    """Looks at input, vocabulary and output; writes nothing.

    Args:
        config: What decides the bytes.
        input_file: Comma list of globs; not used for "tfds".
        output_files: As the flag says.
        overwrite: Whether records made with other flags may be replaced.

    Returns:
        What there is to do, and whether all of it is done.

    Raises:
        InputError: Input, vocabulary or output cannot be used; the message says what to change.
    """
    config = shards.settled(output_files, config)
    vocabulary = stages.vocabulary(config)
    if config.input_format == "tfds":
        paths, inputs = [], [reading.dataset_identity(config)]
    else:
        paths = files.expand_globs(input_file)
        inputs = [identity(path) for path in paths]
    names = {"train": shards.train_names(output_files, config)}
    if config.eval_fraction:
        names["eval"] = shards.eval_names(output_files, config)
    fingerprint = config.fingerprint(vocabulary.sha256, inputs)
    base = shards.stem(output_files[0])
    job = Job(config, base, fingerprint, tuple(inputs), (), names)
    _check_places(job, paths)
    if _is_complete(job):
        return job, True
    if not overwrite:
        _check_nothing_in_the_way(job)
    segments = reading.cut(config, paths)
    if not segments:
        raise InputError(f"There is no text in {job.input_names}.")
    return dataclasses.replace(job, segments=tuple(segments)), False


def _check_places(job: Job, paths: Sequence[str]) -> None:
    """Checks that each shard can be a file, and none is an input."""
    from tensorflow.io import gfile

    inputs = set(map(place, paths))
    for name in job.names:
        if not os.path.basename(name) or gfile.isdir(name):
            raise InputError(
                f"output_file {name} is a folder; give a file in it, such as "
                f"{name.rstrip('/')}/train.tfrecord."
            )
        if place(name) in inputs:
            raise InputError(f"output_file {name} is an input too; give another name.")


def check_enough(job: Job, split: str, count: int) -> None:
    """Checks that there are documents to make records of, and to draw next sentences from.

    Args:
        job: What is to be made.
        split: "train" or "eval".
        count: Its number of documents.

    Raises:
        InputError: There are too few.
    """
    least = 2 if job.config.paired else 1
    if count >= least:
        return
    if split == "eval" or (count and job.config.eval_fraction):
        raise InputError(
            f"With eval_fraction={job.config.eval_fraction} only {count} documents of "
            f"{job.input_names} fall to the {split} records; {least} are needed. Give more "
            "documents or another fraction."
        )
    if count == 0:
        raise InputError(f"There is no text in {job.input_names}.")
    raise InputError(
        f"{job.input_names} is one document, but random next sentences come from another one. "
        "Separate documents by blank lines, or give --objective=mlm, which pairs no sentences."
    )


def identity(path: str) -> dict[str, Any]:
    """Path, bytes and SHA-256 of a file.

    Raises:
        InputError: It cannot be read.
    """
    import tensorflow as tf

    digest, size = hashlib.sha256(), 0
    if tf.io.gfile.isdir(path):
        raise InputError(f"{path} is a folder; name its files, such as {path.rstrip('/')}/*.txt.")
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            while block := file.read(1 << 22):
                digest.update(block)
                size += len(block)
    except tf.errors.OpError as error:
        reason = plain_message(error).split("; ")[-1]
        raise InputError(f"{path} cannot be read: {reason}.") from error
    return {"path": path, "bytes": size, "sha256": digest.hexdigest()}


def read_manifest(path: str) -> dict[str, Any]:
    """What a manifest says; nothing if it is not there or cannot be understood."""
    from tensorflow.io import gfile

    if gfile.exists(path):
        with contextlib.suppress(ValueError):
            found = json.loads(files.read_text(path))
            return found if isinstance(found, dict) else {}
    return {}


def _is_complete(job: Job) -> bool:
    """Whether the same records are all there, under the same names."""
    from tensorflow.io import gfile

    manifest = read_manifest(job.base + ".manifest.json")
    if manifest.get("fingerprint") != job.fingerprint or not gfile.exists(job.base + ".COMPLETED"):
        return False
    sizes = _sizes(job, manifest)
    return all(
        place(name) in sizes and shards.size(name) == sizes[place(name)] for name in job.names
    )


def _sizes(job: Job, manifest: Mapping[str, Any]) -> dict[str, int]:
    """The shards of the job's manifest: where they are, and their bytes."""
    found = listed(os.path.dirname(job.base), manifest)
    return {path: shard["bytes"] for path, shard in found.items()}


def _old(job: Job) -> list[str]:
    """What an earlier run left, that this one will not replace.

    A file that is no longer what the manifest says is somebody else's by now.
    """
    kept = {place(name) for name in job.names}
    sizes = _sizes(job, read_manifest(job.base + ".manifest.json"))
    return [path for path in sizes if path not in kept and shards.size(path) == sizes[path]]


def listed(folder: str, manifest: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The shards that a manifest in a folder lists, by the places where they are."""
    found = {shard["name"]: shard for shard in manifest.get("shards", [])}
    return {
        place(name if "://" in name else os.path.join(folder, name)): shard
        for name, shard in found.items()
    }


def place(path: str) -> str:
    """A path, to be compared with others."""
    return path if "://" in path else os.path.abspath(path)


def _name_in_manifest(job: Job, path: str) -> str:
    """A shard's path from the folder of the manifest, so that all can be moved together."""
    folder = os.path.dirname(job.base)
    if "://" in path:
        return path.removeprefix(f"{folder}/")
    return os.path.abspath(path) if "://" in folder else os.path.relpath(path, folder or ".")


def _check_nothing_in_the_way(job: Job) -> None:
    from tensorflow.io import gfile

    found = [name for name in [*job.names, job.base + ".manifest.json"] if gfile.exists(name)]
    manifest = read_manifest(job.base + ".manifest.json")
    ours = manifest.get("fingerprint") == job.fingerprint or any(
        is_ours(job, folder) for folder in (job.work_folder, job.parts_folder)
    )
    if found and not ours:
        old = _old(job)
        more = f" and {len(old) - 3} more" if len(old) > 3 else ""
        also = f"; that removes {', '.join(old[:3])}{more} too" if old else ""
        raise InputError(
            f"{found[0]} exists and was made with {_difference(job, manifest)}. Give another "
            f"output_file, or --overwrite to replace it{also}."
        )


def _difference(job: Job, manifest: Mapping[str, Any]) -> str:
    """In words, the first thing in which a manifest is not this job."""
    if not manifest:
        return "flags that are not known"
    was, now = manifest.get("flags", {}), job.config.to_dict()
    for name in now:
        if name != "vocab_file" and name in was and was[name] != now[name]:
            return f"--{name}={was[name]}, not {now[name]}"
    content = [
        [{k: v for k, v in each.items() if k != "path"} for each in inputs]
        for inputs in (manifest.get("inputs", []), job.inputs)
    ]
    return "another input" if content[0] != content[1] else "another vocabulary or version"


def is_ours(job: Job, folder: str) -> bool:
    """Whether a run that was to make the same left its intermediate files in this folder."""
    path = f"{folder}/{IDENTITY}"
    if not shards.size(path):
        return False
    with shards.opened(path, "rb") as file:
        return bool(file.read() == job.identity.encode())


def make_folders(job: Job) -> None:
    """Makes the folders of the output.

    Raises:
        InputError: One cannot be made.
    """
    for folder in {os.path.dirname(name) or "." for name in job.names}:
        files.make_folder(folder)


def read_reports(job: Job) -> dict[str, Any]:
    """The statistics that `finish` wrote."""
    return dict(json.loads(files.read_text(job.base + ".stats.json")))


def remove_old(job: Job) -> None:
    """Removes what an earlier run left and will not be replaced by this one, and says so."""
    from tensorflow.io import gfile

    old = _old(job)
    if old:
        print(
            f"Removing what {job.base}.manifest.json lists of the run that is replaced: "
            f"{', '.join(old)}",
            file=sys.stderr,
        )
    for name in [job.base + ".COMPLETED", *old, job.base + ".manifest.json"]:
        if gfile.exists(name):
            gfile.remove(name)


def finish(
    job: Job, made: Mapping[str, list[dict[str, Any]]], counted: Mapping[str, stats.Stats]
) -> dict[str, Any]:
    """Writes the statistics, the manifest and, last, `<stem>.COMPLETED`.

    Args:
        job: What was made.
        made: For each split and shard: examples, bytes and SHA-256.
        counted: For each split, what the records hold.

    Returns:
        The report for each split.
    """
    config, vocabulary = job.config, stages.vocabulary(job.config)
    reports = {split: counts.report() for split, counts in counted.items()}
    listed = [
        {"name": _name_in_manifest(job, name), "split": split, **facts}
        for split in made
        for name, facts in zip(job.shards[split], made[split], strict=True)
    ]
    manifest = {
        "format": FORMAT,
        "version": 1,
        "fingerprint": job.fingerprint,
        "flags": config.to_dict(),
        "vocabulary_sha256": vocabulary.sha256,
        "vocab_size": vocabulary.size,
        "do_lower_case": config.do_lower_case,
        "max_seq_length": config.max_seq_length,
        "max_predictions_per_seq": config.max_predictions_per_seq,
        "examples": {split: report["examples"] for split, report in reports.items()},
        "inputs": list(job.inputs),
        "shards": listed,
    }
    files.write_json(job.base + ".stats.json", reports)
    files.write_json(job.base + ".manifest.json", manifest)
    files.write_text(job.base + ".COMPLETED", job.fingerprint + "\n")
    return reports
