"""Files with facts about them, sealed by checksums, so that any change is noticed.

A sealed folder has a JSON file of facts. The facts contain the SHA-256 of the other
files and, under the key `facts_sha256`, the SHA-256 of all other facts. Weights
folders, checkpoints of training, caches of features and exports are such folders.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bert_tf.errors import InputError
from bert_tf.storage import files

FACTS_SHA256 = "facts_sha256"


def sha256_of_values(values: Mapping[str, Any]) -> str:
    """Returns the SHA-256 of JSON values without `facts_sha256`, in a layout with sorted keys."""
    read_back = json.loads(json.dumps(values))
    read_back.pop(FACTS_SHA256, None)
    return files.sha256(json.dumps(read_back, sort_keys=True).encode())


def seal(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the facts with their own checksum added, under `facts_sha256`."""
    return {**facts, FACTS_SHA256: sha256_of_values(facts)}


def is_sealed(facts: Mapping[str, Any]) -> bool:
    """Whether facts have a checksum, `facts_sha256`, and have not changed since `seal`."""
    return facts.get(FACTS_SHA256) == sha256_of_values(facts)


def checksums(folder: str, names: Iterable[str]) -> dict[str, str]:
    """Returns the SHA-256 of the named files in a folder, by name; leaves out absent files."""
    paths = {name: os.path.join(folder, name) for name in names}
    return {
        name: files.sha256_of_file(path)
        for name, path in paths.items()
        if files.exists(path)
    }


def changed_files(folder: str, stated: Mapping[str, str | None]) -> Iterator[str]:
    """Yields the paths of files in a folder whose SHA-256 differs from that in `stated`."""
    for name, checksum in stated.items():
        path = os.path.join(folder, name)
        if files.sha256_of_file(path) != checksum:
            yield path


def verify_checksum(
    path: str, actual: str, expected: str | None, listed_in: str
) -> None:
    """Raises `InputError` if the SHA-256 of a file differs from the one in the file `listed_in`."""
    if actual != expected:
        raise InputError(
            f"{path} is damaged or was replaced: its SHA-256 differs from the one in "
            f"{listed_in}. Copy the folder again from its source."
        )


def verify_facts(path: str, facts: Mapping[str, Any]) -> None:
    """Raises `InputError` if facts, which were read from `path`, do not match their checksum."""
    actual = sha256_of_values(facts)
    expected = facts.get(FACTS_SHA256)
    verify_checksum(path, actual, expected, os.path.basename(path))
