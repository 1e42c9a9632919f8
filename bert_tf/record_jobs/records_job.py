"""`RecordsJob`: one set of records to create, the names of its files, its work folder.

A split is one of the two sets of records, "train" and "eval". A shard is an output
file. The work folder contains the intermediate files. It is locked during a run, then
removed or kept.
"""

import contextlib
import dataclasses
import errno
import functools
import os
import re
import tempfile
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from bert_tf.errors import InputError
from bert_tf.record_creation.records_config import RecordsConfig
from bert_tf.storage import files, manifest
from bert_tf.storage.workspace import Workspace

# Increase this number when names or formats of intermediate files change, so that files
# of the previous version are not reused.
_INTERMEDIATE_FILES_VERSION = 5
_RECORDS = re.compile(r"\.tf_?records?")


class WorkerKilledError(InputError):
    """A worker was lost or cannot be used. Complete intermediate files are kept."""


@dataclasses.dataclass(frozen=True)
class RecordsJob:
    """A set of records to create.

    Attributes:
        stem: Path of the first output file without its extension (see `output_stem`).
        fingerprint: Hexadecimal hash of config, vocabulary and input.
        inputs: Path, size in bytes, SHA-256 and, if the formats differ, format of each
            input file; for a tensorflow-datasets split, its name and number of
            examples.
        shards: For each split, the paths of its shards.
        work_folder: Folder of `intermediate_folder` and of a lock (see
            `work_folder_path`).
        segment_sizes: Bytes of text in each segment of the input; () before it is cut.
    """

    config: RecordsConfig
    stem: str
    fingerprint: str
    inputs: list[dict[str, Any]]
    shards: dict[str, list[str]]
    work_folder: str
    segment_sizes: tuple[int, ...] = ()

    def path(self, kind: str, split: str, number: int) -> str:
        """Returns the path of an intermediate file, which may be remote on Beam.

        `kind` is "documents", "rows", "part", "part_stats", or "shard" for a file that
        marks a shard as complete. `number` is the index of the segment, part or shard.
        """
        return os.path.join(self.intermediate_folder, f"{kind}-{split}-{number:06d}")

    def segment_paths(self, kind: str, split: str) -> list[str]:
        """Returns the paths of the files of all segments; `kind` is "documents" or "rows"."""
        return [
            self.path(kind, split, number) for number in range(len(self.segment_sizes))
        ]

    @property
    def manifest_path(self) -> str:
        """Path of the manifest of the records."""
        return self.stem + manifest.SUFFIX

    @property
    def completed_path(self) -> str:
        """Path of the file that is written last, when all records are complete."""
        return self.stem + manifest.COMPLETED_SUFFIX

    @property
    def shard_keys(self) -> list[tuple[str, int]]:
        """Split and index of each shard."""
        return [
            (split, n)
            for split, paths in self.shards.items()
            for n in range(len(paths))
        ]

    @property
    def shard_paths(self) -> list[str]:
        """Paths of the shards of all splits."""
        return [path for paths in self.shards.values() for path in paths]

    @property
    def output_paths(self) -> list[str]:
        """Paths of all files that remain after the run, the shards first."""
        stats = self.stem + manifest.STATS_SUFFIX
        return [*self.shard_paths, stats, self.manifest_path, self.completed_path]

    @functools.cached_property
    def intermediate_folder(self) -> str:
        """Folder of the intermediate files.

        Its name identifies the content of the records and the names of the output
        files. The files of a run with other flags, whose workers may still write, are
        in another folder.
        """
        folder = os.path.dirname(self.stem)
        names = (manifest.relative_path(path, folder) for path in self.shard_paths)
        identity = "\n".join(
            [str(_INTERMEDIATE_FILES_VERSION), self.fingerprint, *names]
        )
        return os.path.join(self.work_folder, files.sha256(identity.encode())[:16])

    @property
    def input_names(self) -> str:
        """Paths of the first inputs, for an error message."""
        names = [entry["path"] for entry in self.inputs]
        return ", ".join(names if len(names) < 4 else [*names[:3], "..."])


def output_stem(output_file: str) -> str:
    """Returns the name of the output without ".tfrecord": "a/b.tfrecord" -> "a/b".

    Text after ".tfrecord" is kept, so that each output has its own stem:
    "a/b.tfrecord-1" -> "a/b-1".
    """
    base, extension = _split_extension(output_file)
    return (
        base + _RECORDS.sub("", extension, count=1)
        if _RECORDS.match(extension)
        else base
    )


def _split_extension(output_file: str) -> tuple[str, str]:
    """Splits a path before ".tfrecord", or else before its last extension."""
    folder, name = os.path.split(output_file)
    match = _RECORDS.search(name, 1)
    base = name[: match.start()] if match else os.path.splitext(name)[0]
    return os.path.join(folder, base), name[len(base) :]


def shard_paths(
    output_files: Sequence[str], config: RecordsConfig
) -> dict[str, list[str]]:
    """Returns, for each split, the paths of its shards.

    The training shards are the output files. If there is a single output file and
    several shards, the number of each shard is added to the name of the file. A glob
    for the training shards, such as `<name>-*`, does not match the evaluation shards,
    such as `<name>.eval-00000-of-00001.tfrecord`.
    """
    paths = list(output_files)
    if len(paths) == 1 and config.num_output_shards > 1:
        paths = _numbered(paths[0], "", config.num_output_shards)
    if not config.eval_fraction:
        return {"train": paths}
    eval_count = max(round(config.num_output_shards * config.eval_fraction), 1)
    return {"train": paths, "eval": _numbered(output_files[0], ".eval", eval_count)}


def _numbered(output_file: str, suffix: str, count: int) -> list[str]:
    base, extension = _split_extension(output_file)
    return [
        f"{base}{suffix}-{number:05d}-of-{count:05d}{extension}"
        for number in range(count)
    ]


_LOCK = "lock"  # the name of a file, which also shows that a folder is a work folder


def work_folder_path(stem: str, is_local: bool) -> str:
    """Returns the path of the work folder, next to the output with this stem.

    If `is_local`, the work folder of a remote output is in the temporary folder of the
    system instead.
    """
    folder, name = os.path.split(stem)
    if is_local and "://" in stem:
        digest = files.sha256(stem.encode())[:16]
        return os.path.join(tempfile.gettempdir(), f"bert_tf_{name}_{digest}.work")
    return os.path.join(folder, f".{name}.work")


@contextlib.contextmanager
def locked_work_folder(job: RecordsJob) -> Iterator[None]:
    """Creates and locks the work folder, and removes it when the records are complete.

    After an error, the work folder is kept, so that the next run can resume, unless the
    input is invalid. A full disk and the lock of another process raise an `InputError`.
    """
    folder = job.work_folder
    workspace = Workspace(folder, "intermediate files", "output_file", _LOCK)

    # A worker of a killed run on another machine may have made its intermediate folder
    # again.
    workspace.check_owned(
        [_LOCK],
        [
            name
            for name in files.list_folder(folder)
            if not re.fullmatch(r"[0-9a-f]{16}|\..*", name)
        ],
    )

    with workspace.locked(f"Another process is writing {job.stem}."):
        try:
            _clear(folder, [os.path.basename(job.intermediate_folder)])
            if "://" not in folder:
                os.makedirs(job.intermediate_folder, exist_ok=True)
            yield
        except BaseException as error:
            if any(
                os.strerror(code) in str(error) for code in (errno.ENOSPC, errno.EDQUOT)
            ):
                raise InputError(
                    "The disk is full. Free space in the folder of the output and run "
                    "the same command again: it resumes where this run stopped."
                ) from error

            if isinstance(error, WorkerKilledError):
                raise WorkerKilledError(
                    f"{error} It resumes where this run stopped."
                ) from error

            # If a part has been masked, the input has passed all checks.
            made = files.list_folder(job.intermediate_folder)
            is_masked = any(name.startswith("part") for name in made)
            if isinstance(error, InputError) and not is_masked:
                remove_work_folder(folder)
            raise
        remove_work_folder(folder)


def has_intermediate_files(job: RecordsJob) -> bool:
    """Whether the work folder contains files of this job."""
    return os.path.basename(job.intermediate_folder) in files.list_folder(
        job.work_folder
    )


def remove_work_folder(folder: str) -> None:
    """Removes a work folder, last its lock file, which marks the folder as a work folder.

    If a worker on another machine writes to the folder at this moment, the folder is
    not removed, and the next run can use it.
    """
    with contextlib.suppress(OSError):
        _clear(folder)
        if not set(files.list_folder(folder)) - {_LOCK}:
            files.remove(folder)


def _clear(folder: str, kept: Collection[str] = ()) -> None:
    for name in set(files.list_folder(folder)) - {_LOCK, *kept}:
        files.remove(os.path.join(folder, name))
