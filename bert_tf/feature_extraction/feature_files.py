"""Writes features as JSON lines, npz files or TFRecord files."""

import io
import itertools
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.errors import InputError
from bert_tf.feature_extraction.extraction_config import ExtractionConfig
from bert_tf.feature_extraction.extractor import LineFeatures
from bert_tf.storage import files
from bert_tf.storage.checkpoint_formats import ARCHIVES, is_file_of_checkpoint
from bert_tf.storage.paths import check_output_file, is_inside, is_stdout


def to_json(index: int, features: LineFeatures, labels: Sequence[Any]) -> str:
    """Returns the features of line `index`, from 0, as a line of JSON.

    The format is that of `extract_features.py` in google-research/bert.

    `labels` names each of the vectors of a token, in the key "index": the index of the
    layer, or "concat" or "sum" if the layers are combined.
    """
    entries = [
        {
            "token": token,
            "layers": [
                {
                    "index": label,
                    "values": [round(float(x), 6) for x in vectors[position]],
                }
                for label, vectors in zip(labels, features.values, strict=True)
            ],
        }
        for position, token in enumerate(features.tokens)
    ]
    # google-research/bert spells this key "linex_index".
    return json.dumps({"linex_index": index, "features": entries})


def to_npz(lines: Sequence[LineFeatures], dtype: str) -> bytes:
    """Returns the bytes of a compressed .npz file, for at least one line.

    For N tokens of all lines together, the arrays are `values` [K, N, H], `tokens` [N]
    and `line_splits`. Line i has the tokens from `line_splits[i]` up to, not including,
    `line_splits[i + 1]`. `values` has the dtype `dtype`, "float16" or "float32".
    """
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        values=_cast(np.concatenate([line.values for line in lines], axis=1), dtype),
        tokens=np.array([token for line in lines for token in line.tokens]),
        line_splits=np.cumsum([0, *(len(line.tokens) for line in lines)]),
    )
    return buffer.getvalue()


def _cast(values: np.ndarray, dtype: Any) -> np.ndarray:
    with np.errstate(over="ignore"):
        result: np.ndarray = values.astype(dtype)
    if not np.isfinite(result).all():
        raise InputError(
            f"A feature of {np.abs(values).max():.3g} does not fit into "
            f"{np.dtype(dtype).name}. Give output_dtype=float32."
        )
    return result


def to_example(index: int, features: LineFeatures, dtype: str) -> bytes:
    """Returns the features of a line as a serialized `tf.train.Example`.

    Its keys are `line_index` (from 0), `tokens`, `shape` (the three sizes of `values`),
    `dtype` ("float16" or "float32"), and `values` (raw bytes, little-endian).
    """
    values = _cast(features.values, np.dtype(dtype).newbyteorder("<"))
    example = tf.train.Example()
    feature = example.features.feature
    feature["line_index"].int64_list.value.append(index)
    feature["tokens"].bytes_list.value.extend(map(str.encode, features.tokens))
    feature["shape"].int64_list.value.extend(values.shape)
    feature["dtype"].bytes_list.value.append(dtype.encode())
    feature["values"].bytes_list.value.append(values.tobytes())
    return bytes(example.SerializeToString())


def check_output(
    path: str, output_format: str, inputs: Sequence[str], checkpoint: str, shards: int
) -> None:
    """Checks, before features are computed, that `write` can write its files.

    Raises:
        InputError: A file cannot be written, is one of `inputs`, is in the folder of
            the checkpoint or would replace one of its files; or an earlier output has
            more shards.
    """
    # The files to write.
    paths = [path]
    if output_format != "jsonl":
        if is_stdout(path):
            raise InputError(
                f"The format {output_format} has several files. Give a prefix of file "
                f"names instead of {path}, or output_format=jsonl."
            )
        paths = [_shard_path(path, shard, output_format) for shard in range(shards)]

    for file_path in paths:
        if _belongs_to(file_path, checkpoint):
            raise InputError(
                f"output_file {file_path} is in the folder of the checkpoint {checkpoint}. "
                "Give a file in another folder."
            )
        check_output_file(file_path, [*inputs, checkpoint])

    # A reader of all shards would also read further shards of an earlier output.
    extra = _shard_path(path, shards, output_format)
    if output_format != "jsonl" and files.exists(extra):
        raise InputError(
            f"{extra} is a shard of an earlier output with more shards than the "
            f"{shards} of this one. Remove it and those after it, or give another "
            "output_file."
        )


def _belongs_to(path: str, checkpoint: str) -> bool:
    """Returns whether a path is in a checkpoint's folder or has the name of one of its files."""
    if os.path.isdir(checkpoint):
        return is_inside(path, checkpoint)

    # The checkpoint is a file or the prefix of files in this folder.
    folder, name = os.path.split(path)
    own = os.path.dirname(checkpoint)
    is_neighbor = os.path.realpath(folder) == os.path.realpath(own)
    is_archive = checkpoint.endswith(ARCHIVES)
    return is_neighbor and not is_archive and is_file_of_checkpoint(name)


def _shard_path(path: str, shard: int, output_format: str) -> str:
    return f"{path}-{shard:05d}.{output_format}"


def write(
    path: str,
    features: Iterable[LineFeatures],
    config: ExtractionConfig,
    output_format: str = "jsonl",
    dtype: str = "float32",
    lines_per_shard: int = 1000,
) -> int:
    """Writes features to one file or several files (shards), each atomically.

    Args:
        path: For "jsonl", the file. For the other formats, the prefix of the shards;
            the first "npz" shard is `<path>-00000.npz`.
        features: Features of each line, in order.
        config: The settings with which the features were extracted.
        output_format: One of `FORMATS`.
        dtype: "float16" or "float32", for "npz" and "tfrecord" only.
        lines_per_shard: For "npz" and "tfrecord" only.

    Returns:
        The number of lines.
    """
    if output_format == "jsonl":
        return _write_jsonl(path, features, config)

    features = iter(features)
    shard = count = 0
    while lines := list(itertools.islice(features, lines_per_shard)):
        _write_shard(_shard_path(path, shard, output_format), lines, count, dtype)
        shard += 1
        count += len(lines)
    return count


def _write_jsonl(
    path: str, features: Iterable[LineFeatures], config: ExtractionConfig
) -> int:
    labels = list(config.layers) if config.combine == "none" else [config.combine]
    count = 0
    with (
        files.atomic_replace(path) as temporary,
        files.open_binary(temporary, "wb") as file,
    ):
        for count, line in enumerate(features, start=1):
            file.write(f"{to_json(count - 1, line, labels)}\n".encode())
    return count


def _write_shard(
    path: str, lines: Sequence[LineFeatures], first: int, dtype: str
) -> None:
    if path.endswith(".npz"):
        files.write_bytes(path, to_npz(lines, dtype))
        return
    with (
        files.atomic_replace(path) as temporary,
        tf.io.TFRecordWriter(temporary) as writer,
    ):
        for index, line in enumerate(lines, start=first):
            writer.write(to_example(index, line, dtype))
