"""The weights folder: weights, config and vocabulary, without the training state.

    model.safetensors   every variable under its google-research/bert name, such as
                        `bert/encoder/layer_0/attention/self/query/kernel`
    bert_config.json    the architecture
    vocab.txt           the vocabulary, one entry per line
    weights.json        casing, checksums, and values of the caller, such as labels

`weights.json` contains the SHA-256 of the weights, of the config, of the vocabulary and
of its own values, so that a change in any file is noticed. Folders of earlier versions
(format 1) have no checksum of the config and of the values of `weights.json`; they are
read without this check.
"""

import dataclasses
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.errors import InputError
from bert_tf.storage import files, json_files
from bert_tf.storage.integrity import (
    FACTS_SHA256,
    seal,
    sha256_of_values,
    verify_checksum,
    verify_facts,
)
from bert_tf.storage.safetensors_format import from_safetensors, to_safetensors

WEIGHTS_FILE = "model.safetensors"
CONFIG_FILE = "bert_config.json"
VOCABULARY_FILE = "vocab.txt"
FACTS_FILE = "weights.json"
RESERVED_FACTS = (
    "format",
    "do_lower_case",
    "vocabulary_sha256",
    "weights_sha256",
    "config_sha256",
    FACTS_SHA256,
)
# The facts that a model in memory keeps: how its head, or the vectors of an encoder,
# are used.
MODEL_FACTS = (
    "task_type",
    "labels",
    "pair",
    "threshold",
    "scheme",
    "document_context",
    "num_choices",
    "max_seq_length",
    "doc_stride",
    "max_query_length",
    "n_best_size",
    "max_answer_length",
    "null_score_diff_threshold",
    "version_2_with_negative",
    "padding_as_released",
    "long_texts",
    "max_windows",
)
ENCODER_FACTS = ("embedding", "max_seq_length")
EMBEDDING_FACTS = (
    "pooling",
    "normalize",
    "max_seq_length",
    "prompts",
    "default_prompt_name",
    "include_prompt",
    "dimensions",
    "problem",
)
# The facts that the programs use. Users may save further facts.
_FACTS = (*RESERVED_FACTS, "step", "eval", "head", "embedding", "task", *MODEL_FACTS)
_FORMAT = 2
_WITHOUT_CHECKSUMS = 1
# White space is not stripped from these two entries of the released Chinese vocabulary,
# since stripping would change them to "" and "##".
_UNSTRIPPED_ENTRIES = ("\u2028", "##\u2028")


@dataclasses.dataclass(frozen=True)
class WeightsFolder:
    """The contents of a weights folder.

    Attributes:
        arrays: Each variable by its google-research/bert name.
        config: The keys of `bert_config.json`.
        vocabulary: The entries in the order of their ids, or None.
        do_lower_case: Whether the tokenizer lower-cases text, or None if unknown.
        facts: Other values from `weights.json`, such as `labels` or `step`.
    """

    arrays: dict[str, np.ndarray]
    config: dict[str, Any]
    vocabulary: list[str] | None
    do_lower_case: bool | None
    facts: dict[str, Any]


def vocabulary_text(vocabulary: Sequence[str]) -> bytes:
    """Returns the bytes of a `vocab.txt`: UTF-8, each entry followed by a line feed."""
    return "".join(f"{entry}\n" for entry in vocabulary).encode("utf-8")


def write_vocabulary_file(folder: str, vocabulary: Sequence[str] | None) -> None:
    """Writes the `vocab.txt` of a checkpoint, if it has a vocabulary."""
    if vocabulary is not None:
        path = posixpath.join(folder, VOCABULARY_FILE)
        files.write_bytes(path, vocabulary_text(vocabulary))


def vocabulary_sha256(vocabulary: Sequence[str]) -> str:
    r"""Returns the hexadecimal SHA-256 of the vocabulary's entries, joined by \n."""
    return files.sha256("\n".join(vocabulary).encode("utf-8"))


def write_into(
    folder: str,
    arrays: Mapping[str, np.ndarray],
    config: Mapping[str, Any],
    vocabulary: Sequence[str] | None,
    do_lower_case: bool | None,
    facts: Mapping[str, Any],
) -> None:
    """Writes the files of a weights folder; the caller makes this atomic.

    The arguments are the attributes of `WeightsFolder`. `facts` must not have the keys
    in `RESERVED_FACTS`.
    """
    content = to_safetensors(arrays)
    stored = {
        **facts,
        "format": _FORMAT,
        "do_lower_case": do_lower_case,
        "vocabulary_sha256": None
        if vocabulary is None
        else vocabulary_sha256(vocabulary),
        "weights_sha256": files.sha256(content),
        "config_sha256": sha256_of_values(config),
    }

    files.write_bytes(posixpath.join(folder, WEIGHTS_FILE), content)
    files.write_json(posixpath.join(folder, CONFIG_FILE), dict(config))
    write_vocabulary_file(folder, vocabulary)

    # A folder with this file is complete.
    files.write_json(posixpath.join(folder, FACTS_FILE), seal(stored))


def is_weights_folder(path: str) -> bool:
    """Whether a path is a weights folder, which contains a `weights.json`."""
    return files.exists(posixpath.join(path, FACTS_FILE))


def read_weights_folder(folder: str) -> WeightsFolder:
    """Reads a weights folder, and verifies its checksums."""
    facts = read_facts(folder)

    weights_path = posixpath.join(folder, WEIGHTS_FILE)
    weights = files.read_bytes(weights_path)
    expected = facts.get("weights_sha256")
    verify_checksum(weights_path, files.sha256(weights), expected, FACTS_FILE)

    config_path = posixpath.join(folder, CONFIG_FILE)
    config = json_files.read(config_path, own=True)
    if facts["format"] == _FORMAT:
        expected = facts.get("config_sha256")
        verify_checksum(config_path, sha256_of_values(config), expected, FACTS_FILE)

    vocabulary = None
    if facts.get("vocabulary_sha256"):
        path = posixpath.join(folder, VOCABULARY_FILE)
        text = files.read_text(path).removesuffix("\n")
        expected = facts["vocabulary_sha256"]
        verify_checksum(path, files.sha256(text.encode()), expected, FACTS_FILE)
        # White space is kept here but not in `read_vocabulary`: the checksum includes
        # white space.
        vocabulary = text.split("\n")

    return WeightsFolder(
        arrays=from_safetensors(weights, weights_path),
        config=config,
        vocabulary=vocabulary,
        do_lower_case=facts.get("do_lower_case"),
        facts={key: value for key, value in facts.items() if key not in RESERVED_FACTS},
    )


def read_facts(folder: str) -> dict[str, Any]:
    """Reads the `weights.json` of a weights folder, and verifies its checksum.

    Facts that the programs use are left out if they are null.
    """
    path = posixpath.join(folder, FACTS_FILE)
    facts = json_files.read(path, own=True)
    if facts.get("format") not in (_FORMAT, _WITHOUT_CHECKSUMS):
        raise InputError(
            f'{path} must contain "format": {_FORMAT}. Received: '
            f"{facts.get('format')!r}. Write "
            "the folder again with this version of bert-tf."
        )

    # Versions that wrote format 1 did not write this checksum. So a file with both was
    # changed, and the check fails.
    if facts["format"] == _FORMAT or FACTS_SHA256 in facts:
        verify_facts(path, facts)

    return {k: v for k, v in facts.items() if v is not None or k not in _FACTS}


def read_vocabulary(path: str) -> list[str]:
    r"""Reads a `vocab.txt`: one entry per line, whose id is the line number from 0.

    Lines end with \n or \r\n only, because entries may contain other line separators.
    As in the released `load_vocab`, white space around an entry is removed, except from
    two entries of the released Chinese vocabulary (U+2028 and ##U+2028). A byte order
    mark and empty lines at the end are dropped. This function does not check the
    entries; `load_vocabulary` does.

    Source: google-research/bert `tokenization.load_vocab`.
    """
    text = files.read_text(path)
    files.check_lines(path, text.encode())
    entries = [_strip_entry(line) for line in text.split("\n")]
    while entries and not entries[-1]:
        entries.pop()
    return entries


def _strip_entry(line: str) -> str:
    entry = line.strip(" \t\r")
    return entry if entry in _UNSTRIPPED_ENTRIES else entry.strip()
