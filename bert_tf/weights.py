"""The weights-only folder: what a trained model is, without the state of its training.

    model.safetensors   every variable under its google-research/bert name, such as
                        `bert/encoder/layer_0/attention/self/query/kernel`
    bert_config.json    the architecture
    vocab.txt           the vocabulary, one entry a line
    weights.json        casing, checksums, and what the writer adds, such as the labels or the step

Imports layer 0 only; TensorFlow inside functions.
"""

import dataclasses
import json
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from bert_tf import files
from bert_tf.config import BertConfig
from bert_tf.errors import InputError

WEIGHTS_FILE = "model.safetensors"
CONFIG_FILE = "bert_config.json"
VOCABULARY_FILE = "vocab.txt"
FACTS_FILE = "weights.json"
_OUR_FACTS = ("format", "do_lower_case", "vocabulary_sha256", "weights_sha256")
_FORMAT = 1
_DTYPES = {
    **{f"F{8 * size}": f"<f{size}" for size in (2, 4, 8)},
    **{f"{kind}{8 * size}": f"<{kind.lower()}{size}" for kind in "IU" for size in (1, 2, 4, 8)},
    "BOOL": "?",
}


@dataclasses.dataclass(frozen=True)
class WeightsFolder:
    """What a weights-only folder holds.

    Attributes:
        arrays: Each variable by its google-research/bert name.
        config: The architecture.
        vocabulary: The entries by id, or None if the writer had none.
        do_lower_case: Whether the tokenizer lowers case, or None if the writer did not know.
        extra: Further facts of the writer, such as `labels` (list of strings) or `step`.
    """

    arrays: dict[str, np.ndarray]
    config: BertConfig
    vocabulary: list[str] | None
    do_lower_case: bool | None
    extra: dict[str, Any]


def vocabulary_text(vocabulary: Sequence[str]) -> bytes:
    """The bytes of a `vocab.txt`: UTF-8, each entry followed by a line feed."""
    return "".join(f"{entry}\n" for entry in vocabulary).encode("utf-8")


def vocabulary_sha256(vocabulary: Sequence[str]) -> str:
    r"""The hash that names a vocabulary: SHA-256 of its entries joined by \n, in hexadecimal."""
    return files.sha256("\n".join(vocabulary).encode("utf-8"))


def write_weights(
    folder: str,
    arrays: Mapping[str, np.ndarray],
    config: BertConfig | Mapping[str, Any],
    vocabulary: Sequence[str] | None,
    do_lower_case: bool | None,
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Writes a weights-only folder, which appears whole or not at all.

    Args:
        folder: Where, local or gs://; an existing folder is replaced.
        arrays: Each variable by its google-research/bert name.
        config: The architecture, as `BertConfig` or as the keys of a `bert_config.json`.
        vocabulary: The entries by id, or None.
        do_lower_case: Whether the tokenizer lowers case, or None if that is not known.
        extra: Further facts for `weights.json`, JSON values such as `labels` or `step`.

    Raises:
        ValueError: `extra` has a key that the folder's own facts use.
    """
    with files.atomic_folder(folder.rstrip("/"), FACTS_FILE) as place:
        write_into(place, arrays, config, vocabulary, do_lower_case, extra)


def write_into(
    place: str,
    arrays: Mapping[str, np.ndarray],
    config: BertConfig | Mapping[str, Any],
    vocabulary: Sequence[str] | None,
    do_lower_case: bool | None,
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Writes the files of `write_weights` into a folder that appears with further ones."""
    taken = set(_OUR_FACTS).intersection(extra or {})
    if taken:
        raise ValueError(f"extra must not have the keys {sorted(taken)}.")
    if not isinstance(config, BertConfig):
        config = BertConfig.from_dict(config)
    content = to_safetensors(arrays)
    facts = {
        **(extra or {}),
        "format": _FORMAT,
        "do_lower_case": do_lower_case,
        "vocabulary_sha256": None if vocabulary is None else vocabulary_sha256(vocabulary),
        "weights_sha256": files.sha256(content),
    }
    files.write_bytes(posixpath.join(place, WEIGHTS_FILE), content)
    files.write_text(posixpath.join(place, CONFIG_FILE), config.to_json())
    if vocabulary is not None:
        path = posixpath.join(place, VOCABULARY_FILE)
        files.write_bytes(path, vocabulary_text(vocabulary))
    files.write_json(posixpath.join(place, FACTS_FILE), facts)


def is_weights_folder(path: str) -> bool:
    """Whether the folder was written by `write_weights`."""
    from tensorflow.io import gfile

    return bool(gfile.exists(posixpath.join(path, FACTS_FILE)))


def read_weights_folder(folder: str) -> WeightsFolder:
    """Reads what `write_weights` wrote and checks it against its checksums.

    Args:
        folder: The folder, local or gs://.

    Raises:
        InputError: A file is missing, damaged, or does not belong to the others.
    """
    facts_path = posixpath.join(folder, FACTS_FILE)
    try:
        facts = json.loads(files.read_text(facts_path))
    except json.JSONDecodeError as error:
        raise InputError(f"{facts_path} is not JSON: {error}. Write the folder anew.") from error
    if not isinstance(facts, dict) or facts.get("format") != _FORMAT:
        found = facts.get("format") if isinstance(facts, dict) else facts
        raise InputError(f"{facts_path} must say format {_FORMAT}. Received: {found!r}.")
    weights_path = posixpath.join(folder, WEIGHTS_FILE)
    weights = files.read_bytes(weights_path)
    _check(weights_path, weights, facts.get("weights_sha256"))
    vocabulary = None
    if facts.get("vocabulary_sha256"):
        path = posixpath.join(folder, VOCABULARY_FILE)
        text = files.read_bytes(path).removesuffix(b"\n")
        _check(path, text, facts["vocabulary_sha256"])
        vocabulary = text.decode("utf-8").split("\n")
    config_path = posixpath.join(folder, CONFIG_FILE)
    return WeightsFolder(
        arrays=from_safetensors(weights, weights_path),
        config=BertConfig.from_json(files.read_text(config_path), config_path),
        vocabulary=vocabulary,
        do_lower_case=facts.get("do_lower_case"),
        extra={key: value for key, value in facts.items() if key not in _OUR_FACTS},
    )


def _check(path: str, content: bytes, sha256: str | None) -> None:
    if sha256 != files.sha256(content):
        raise InputError(
            f"{path} is not the file that {FACTS_FILE} beside it describes (its SHA-256 differs): "
            "it was damaged or replaced. Copy the folder again from its source."
        )


def to_safetensors(
    arrays: Mapping[str, np.ndarray], metadata: dict[str, str] | None = None
) -> bytes:
    """The bytes of a safetensors file.

    Args:
        arrays: Tensors by name.
        metadata: Strings for the file's `__metadata__`.
    """
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return safetensors.numpy.save(plain, metadata)


def from_safetensors(content: bytes, path: str) -> dict[str, np.ndarray]:
    """The tensors of a safetensors file; bfloat16, which numpy lacks, as float32.

    Args:
        content: The bytes of the file.
        path: Where they are from, for the message.

    Raises:
        InputError: Not a whole safetensors file, or a tensor has a dtype that numpy lacks.
    """
    try:
        tensors = safetensors.deserialize(content)
    except safetensors.SafetensorError as error:
        raise InputError(f"{path} is not a whole safetensors file: {error}.") from error
    return {
        name: _array(tensor["dtype"], tensor["data"], f"{path}: {name}").reshape(tensor["shape"])
        for name, tensor in tensors
    }


def _array(dtype: str, data: bytes, name: str) -> np.ndarray:
    if dtype == "BF16":
        # The upper half of a float32.
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
    if dtype not in _DTYPES:
        raise InputError(
            f"{name} has the dtype {dtype}, which cannot be read. Save the model as float32."
        )
    return np.frombuffer(data, _DTYPES[dtype])


def read_vocabulary(path: str) -> list[str]:
    r"""The entries of a `vocab.txt` by id, unchecked: `BertTokenizer` checks what it is given.

    Lines end at \n or \r\n only, since entries may hold other separators.

    Args:
        path: The file, local or gs://.

    Raises:
        InputError: The file is missing or not UTF-8.
    """
    lines = [line.strip(" \t\r") for line in files.read_text(path).split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return [lines[0].removeprefix("\ufeff"), *lines[1:]] if lines else []
