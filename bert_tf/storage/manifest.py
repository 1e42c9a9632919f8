"""The manifest of pretraining records: the settings, and a checksum per file.

A shard is one of the record files that a run of `create_pretraining_data` writes.
"""

import contextlib
import dataclasses
import itertools
import os
from collections.abc import Iterable
from typing import Any

from bert_tf.errors import InputError
from bert_tf.storage import files, json_files
from bert_tf.storage.paths import real_path

SUFFIX = ".manifest.json"
STATS_SUFFIX = ".stats.json"
COMPLETED_SUFFIX = ".COMPLETED"
_FORMAT = {"format": "bert_tf pretraining records", "version": 1}


@dataclasses.dataclass(frozen=True)
class Shard:
    """A record file that a manifest lists.

    Attributes:
        path: An absolute local path or a URL such as gs://bucket/train.tfrecord.
        split: "train" or "eval".
        examples: Number of records.
    """

    path: str
    bytes: int
    sha256: str
    split: str = ""
    examples: int = 0

    def has_recorded_size(self) -> bool:
        """Whether the file exists and has the size that the manifest records."""
        return (
            files.is_file(self.path)
            and files.size_and_mtime(self.path)[0] == self.bytes
        )

    def has_recorded_checksum(self) -> bool:
        """Reads the whole file, and returns whether it has the SHA-256 in the manifest."""
        return files.size_and_sha256(self.path)[1] == self.sha256


@dataclasses.dataclass(frozen=True)
class Manifest:
    """The contents of a manifest file, `<stem>.manifest.json`.

    Attributes:
        shards: The record files of all splits.
        facts: All other entries. `create_pretraining_data` writes fingerprint (a hash
            of all values that determine the bytes of the records), flags,
            vocabulary_sha256, vocab_size, do_lower_case, max_seq_length,
            max_predictions_per_seq, documents, sentences and examples (their numbers in
            each split), and inputs (for each input file the path, the size in bytes and
            the SHA-256).
    """

    path: str
    shards: tuple[Shard, ...]
    facts: dict[str, Any]

    @classmethod
    def read(cls, path: str) -> "Manifest":
        """Reads a manifest; raises `InputError` if it is missing or damaged."""
        facts = json_files.read(path, own=True)
        folder = os.path.dirname(path)
        shards = tuple(
            Shard(absolute_path(entry.pop("name"), folder), **entry)
            for entry in facts.pop("shards", [])
        )
        return cls(path, shards, facts)

    def write(self) -> None:
        """Writes the manifest to its path, atomically."""
        folder = os.path.dirname(self.path)
        shards = [dataclasses.asdict(shard) for shard in self.shards]
        for shard in shards:
            shard["name"] = relative_path(shard.pop("path"), folder)
        files.write_json(self.path, {**_FORMAT, **self.facts, "shards": shards})

    def find_shard(self, path: str) -> Shard | None:
        """Returns the entry of a record file, or None if it is not listed."""
        paths = [absolute_path(alias) for alias in _with_target(path)]
        return next((shard for shard in self.shards if shard.path in paths), None)


def find_records(patterns: str) -> list[str]:
    """Returns the record files that match comma-separated globs.

    Globs such as `records/*` also match the files that record creation writes next to
    its shards. These are left out.
    """
    suffixes = (SUFFIX, STATS_SUFFIX, COMPLETED_SUFFIX)
    return files.expand_globs(patterns, "record", without=suffixes)


def manifests_next_to(
    paths: Iterable[str], skip_damaged: bool = False
) -> list[Manifest]:
    """Reads all manifests in the folders of the given record files, sorted by path.

    If a record file is a link, the folder of its target is read too. A damaged manifest
    raises `InputError`, unless `skip_damaged` is true.
    """
    folders: dict[str, str] = {}
    for path in itertools.chain.from_iterable(map(_with_target, paths)):
        folder = os.path.dirname(path)
        folders.setdefault(real_path(folder), folder)

    manifests = []
    for folder in sorted(folders.values()):
        for name in files.list_folder(folder):
            if name.endswith(SUFFIX):
                with contextlib.suppress(*[InputError] if skip_damaged else []):
                    manifests.append(Manifest.read(os.path.join(folder, name)))
    return manifests


def _with_target(path: str) -> list[str]:
    """Returns a path and, if it is a link, the path of its target."""
    return [path, os.path.realpath(path)] if os.path.islink(path) else [path]


def list_shards(
    manifests: Iterable[Manifest], path: str
) -> list[tuple[Manifest, Shard]]:
    """Returns all entries of a record file, each with the manifest that contains it.

    A file has several entries if two runs of `create_pretraining_data` wrote it. The
    size and the checksum of the file then match only the entry of the newer run.
    """
    return [
        (manifest, shard)
        for manifest in manifests
        if (shard := manifest.find_shard(path))
    ]


def absolute_path(path: str, folder: str = "") -> str:
    """Makes a path absolute; keeps a URL. A relative path is in `folder`, which may be a URL."""
    joined = path if "://" in path else os.path.join(folder, path)
    return joined if "://" in joined else os.path.abspath(joined)


def relative_path(path: str, folder: str) -> str:
    """Makes a path relative to `folder`, so that both can be moved together.

    A path on another file system stays absolute.
    """
    if "://" in path:
        return path.removeprefix(f"{folder}/")
    return (
        os.path.abspath(path)
        if "://" in folder
        else os.path.relpath(path, folder or ".")
    )
