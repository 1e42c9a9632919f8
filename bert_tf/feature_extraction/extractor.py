"""Feature extraction: the hidden states of BERT as features of tokens or words.

Imports foundation modules, and TensorFlow inside functions, so that programs can list the settings
quickly. Shape letters: B batch, S sequence length, T tokens or words of a line, K vectors per
token, H hidden size.
"""

import dataclasses
import glob
import io
import itertools
import json
import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_tf import atomic_files, files
from bert_tf.errors import InputError, check_at_least
from bert_tf.file_checks import is_inside

if TYPE_CHECKING:
    from bert_tf.modeling import BertEncoder
    from bert_tf.tokenization import BertTokenizer

COMBINATIONS = ("none", "concat", "sum")
UNITS = ("token", "word")
FORMATS = ("jsonl", "npz", "tfrecord")
_PAIR = re.compile(r"^(.*) \|\|\| (.*)$")


@dataclasses.dataclass(frozen=True)
class ExtractionConfig:
    """Settings of the feature extraction.

    Attributes:
        layers: Indices of the Transformer blocks whose outputs are extracted: 0 is the first of L
            blocks, -1 the last, and -(L + 1) the embeddings.
        combine: "none" for one vector per layer, "concat" or "sum" to combine the layers into one
            vector. In the paper, "concat" of the last four layers is the best for named entity
            recognition.
        unit: "token" for one vector per WordPiece token, or "word" for the mean over the tokens of
            each word.
        max_seq_length: Number of tokens, including [CLS] and [SEP], to which a line is truncated.
        batch_size: Number of lines in a batch.

    Raises:
        InputError: `batch_size` is below 1.

    Source: paper, section 5.3; google-research/bert `extract_features.py`.
    """

    layers: tuple[int, ...] = (-1, -2, -3, -4)
    combine: str = "none"
    unit: str = "token"
    max_seq_length: int = 128
    batch_size: int = 32

    def __post_init__(self) -> None:
        check_at_least(1, self, "batch_size")


@dataclasses.dataclass(frozen=True)
class LineFeatures:
    """The features of one line.

    Attributes:
        tokens: The T tokens or words of the line, with [CLS] and [SEP].
        values: float32 [K, T, H] for `combine` "none", [1, T, K*H] for "concat", [1, T, H] for
            "sum".
    """

    tokens: list[str]
    values: np.ndarray


class FeatureExtractor:
    """Computes features of lines of text, batch by batch.

    A line `A ||| B` is a pair of texts. Each batch is padded only to its longest line.

    Args:
        encoder: The encoder with trained weights.
        tokenizer: The tokenizer that the encoder was trained with.
        config: Settings of the extraction.

    Raises:
        InputError: The encoder does not have one of the layers, or `max_seq_length` is larger than
            the encoder's `max_position_embeddings`.
    """

    def __init__(
        self, encoder: "BertEncoder", tokenizer: "BertTokenizer", config: ExtractionConfig
    ) -> None:
        import tensorflow as tf

        blocks = encoder.config.num_hidden_layers
        for layer in config.layers:
            if not -blocks - 1 <= layer < blocks:
                raise InputError(
                    f"There is no layer {layer} in this model. layers must be from -{blocks} to "
                    f"{blocks - 1}, or -{blocks + 1} for the embeddings."
                )
        longest = encoder.config.max_position_embeddings
        if not 3 <= config.max_seq_length <= longest:
            raise InputError(
                f"max_seq_length must be from 3 to {longest} for this model. "
                f"Received: {config.max_seq_length}."
            )
        self._encoder, self._tokenizer, self._config = encoder, tokenizer, config
        spec = tf.TensorSpec([None, None], tf.int32)
        self._compute = tf.function(self._hidden_states, input_signature=[spec] * 3)

    def _hidden_states(self, ids: Any, mask: Any, segments: Any) -> Any:
        """Returns the hidden states of the configured layers, float32 [B, K, S, H]."""
        import tensorflow as tf

        outputs = self._encoder({"input_ids": ids, "input_mask": mask, "segment_ids": segments})
        states = [outputs["embedding_output"], *outputs["encoder_outputs"]]
        selected = [states[i + 1] if i >= 0 else states[i] for i in self._config.layers]
        return tf.cast(tf.stack(selected, axis=1), tf.float32)

    def __call__(self, lines: Iterable[str]) -> Iterator[LineFeatures]:
        """Yields the features of each line, in order."""
        lines = iter(lines)
        while batch := list(itertools.islice(lines, self._config.batch_size)):
            yield from self._extract_batch(batch)

    def _extract_batch(self, lines: Sequence[str]) -> list[LineFeatures]:
        """Returns the features of each line. Single texts are encoded separately from pairs."""
        texts = [pair.groups() if (pair := _PAIR.match(s)) else (s,) for s in map(str.strip, lines)]
        results: dict[int, LineFeatures] = {}
        for texts_per_line in (1, 2):
            rows = [i for i, each in enumerate(texts) if len(each) == texts_per_line]
            if rows:
                results.update(zip(rows, self._extract([texts[i] for i in rows]), strict=True))
        return [results[i] for i in range(len(lines))]

    def _extract(self, texts: Sequence[Sequence[str]]) -> list[LineFeatures]:
        """Returns the features of lines. The lines are either all single texts or all pairs.

        Raises:
            InputError: A feature is NaN or infinite.
        """
        sides = [list(side) for side in zip(*texts, strict=True)]
        length = self._config.max_seq_length
        packed = self._tokenizer.encode(*sides, seq_length=length, trim_to_longest=True)
        lengths = packed["input_mask"].numpy().sum(axis=1)
        inputs = [packed[name] for name in ("input_ids", "input_mask", "segment_ids")]
        states = self._compute(*inputs).numpy()
        if not np.isfinite(states).all():
            raise InputError(
                f"The features of {texts[0][0]!r:.60} or a line near it are not finite: the "
                "weights are too large for a trained model. Give another checkpoint."
            )
        vocabulary = self._tokenizer.vocabulary
        return [
            self._combine([vocabulary[i] for i in ids[:length]], rows[:, :length])
            for ids, length, rows in zip(inputs[0].numpy(), lengths, states, strict=True)
        ]

    def _combine(self, tokens: list[str], values: np.ndarray) -> LineFeatures:
        """Applies the settings `unit` and `combine` to the vectors of a line."""
        if self._config.unit == "word":
            tokens, values = average_words(tokens, values)
        if self._config.combine == "sum":
            values = values.sum(axis=0, keepdims=True)
        elif self._config.combine == "concat":
            values = np.concatenate(list(values), axis=-1)[None]
        return LineFeatures(tokens, values)


def average_words(tokens: Sequence[str], values: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Joins WordPiece tokens into words, and averages the vectors of the tokens within each word.

    Args:
        tokens: T tokens; a token that starts with ## continues a word.
        values: Float array [K, T, H].

    Returns:
        The words, and their vectors [K, number of words, H].
    """
    starts = [i for i, token in enumerate(tokens) if i == 0 or not token.startswith("##")]
    ends = [*starts[1:], len(tokens)]
    words = [
        tokens[start] + "".join(token.removeprefix("##") for token in tokens[start + 1 : end])
        for start, end in zip(starts, ends, strict=True)
    ]
    sums = np.add.reduceat(values, starts, axis=1)
    return words, sums / np.subtract(ends, starts)[None, :, None].astype(values.dtype)


def to_json(index: int, features: LineFeatures, labels: Sequence[Any]) -> str:
    """Returns one line of the JSONL format of google-research/bert.

    Args:
        index: Number of the line, from 0.
        features: Features of the line.
        labels: For each of the K vectors, the value of the key "index": the index of the layer, or
            "concat" or "sum" if layers are combined.
    """
    entries = [
        {
            "token": token,
            "layers": [
                {"index": label, "values": [round(float(x), 6) for x in vectors[position]]}
                for label, vectors in zip(labels, features.values, strict=True)
            ],
        }
        for position, token in enumerate(features.tokens)
    ]
    # google-research/bert spells this key "linex_index".
    return json.dumps({"linex_index": index, "features": entries})


def to_npz(lines: Sequence[LineFeatures], dtype: str) -> bytes:
    """Returns the bytes of a compressed .npz file.

    The arrays of the file are `values` [K, sum of T, H], `tokens` [sum of T] and `line_splits`.
    Line i has the tokens from `line_splits[i]` up to, not including, `line_splits[i + 1]`.

    Args:
        lines: Features of at least one line.
        dtype: Dtype of `values`, "float16" or "float32".
    """
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        values=np.concatenate([line.values for line in lines], axis=1).astype(dtype),
        tokens=np.array([token for line in lines for token in line.tokens]),
        line_splits=np.cumsum([0, *(len(line.tokens) for line in lines)]),
    )
    return buffer.getvalue()


def to_example(index: int, features: LineFeatures, dtype: str) -> bytes:
    """Returns a serialized `tf.train.Example`.

    The example has the features `line_index`, `tokens`, `shape` (the three sizes of `values`),
    `dtype`, and `values` (raw bytes).

    Args:
        index: Number of the line, from 0.
        features: Features of the line.
        dtype: Dtype of `values`, "float16" or "float32", stored little-endian.
    """
    import tensorflow as tf

    values: np.ndarray = features.values.astype(np.dtype(dtype).newbyteorder("<"))

    def integers(numbers: Sequence[int]) -> Any:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=numbers))

    def strings(texts: Sequence[bytes]) -> Any:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=texts))

    feature = {
        "line_index": integers([index]),
        "tokens": strings([token.encode("utf-8") for token in features.tokens]),
        "shape": integers(values.shape),
        "dtype": strings([dtype.encode()]),
        "values": strings([values.tobytes()]),
    }
    example = tf.train.Example(features=tf.train.Features(feature=feature))
    return bytes(example.SerializeToString())


def check_output(
    path: str, output_format: str, inputs: Sequence[str] = (), checkpoint: str = "", shards: int = 0
) -> None:
    """Checks, before the work, that `write` can write.

    Args:
        path: The argument `path` of `write`.
        output_format: The argument `output_format` of `write`.
        inputs: The files that are read.
        checkpoint: The checkpoint that is read: a folder, a file or the prefix of file names.
        shards: The number of shards to write; 0 if it is not known yet.

    Raises:
        InputError: See `atomic_files.check_output_file`. Or a file would be written into the folder
            of the checkpoint or replace a file of it, or an earlier output has more shards.
    """
    paths = [path]
    if output_format != "jsonl":
        if atomic_files.is_stdout(path):
            raise InputError(
                f"The format {output_format} has several files. Give a prefix of file names "
                f"instead of {path}, or output_format=jsonl."
            )
        paths = [_shard_path(path, shard, output_format) for shard in range(shards or 1)]
    folder, name = posixpath.split(checkpoint)
    if checkpoint and not os.path.isdir(checkpoint):
        parts = (glob.escape(name) + "*", "*vocab.txt*", "*config.json", "tokenizer.json")
        found = (glob.glob(os.path.join(glob.escape(folder), part)) for part in parts)
        inputs = [*inputs, *itertools.chain.from_iterable(found)]
    for each in paths:
        if os.path.isdir(checkpoint) and is_inside(each, checkpoint):
            raise InputError(
                f"output_file {each} is in the folder of the checkpoint {checkpoint}. Give a file "
                "in another folder."
            )
        atomic_files.check_output_file(each, inputs)
    extra = _shard_path(path, shards, output_format)
    if output_format != "jsonl" and shards and files.exists(extra):
        raise InputError(
            f"{extra} is a shard of an earlier output with more "
            f"shards than the {shards} of this one. Remove it and those after it, or give another "
            "output_file."
        )


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
    """Writes features to one file, or to several files (shards). Each file is written atomically.

    Args:
        path: For "jsonl", the file. For the other formats, the prefix of the shards; the first
            "npz" shard is `<path>-00000.npz`.
        features: Features of each line, in order.
        config: The settings with which the features were extracted.
        output_format: One of `FORMATS`. "jsonl" is the format of google-research/bert. Files in
            this format are large.
        dtype: Dtype of the values in "npz" and "tfrecord", "float16" or "float32".
        lines_per_shard: Number of lines in each "npz" or "tfrecord" shard.

    Returns:
        The number of lines.

    Raises:
        InputError: `lines_per_shard` is below 1, or a file cannot be written.
    """
    if lines_per_shard < 1:
        raise InputError(f"lines_per_shard must be at least 1. Received: {lines_per_shard}.")
    if output_format == "jsonl":
        return _write_jsonl(path, features, config)
    features = iter(features)
    count = 0
    for shard in itertools.count():
        lines = list(itertools.islice(features, lines_per_shard))
        if not lines:
            break
        _write_shard(_shard_path(path, shard, output_format), lines, count, dtype)
        count += len(lines)
    return count


def _write_jsonl(path: str, features: Iterable[LineFeatures], config: ExtractionConfig) -> int:
    from tensorflow.io import gfile

    labels = list(config.layers) if config.combine == "none" else [config.combine]
    count = 0
    with files.atomic_replace(path) as temporary, gfile.GFile(temporary, "w") as file:
        for count, line in enumerate(features, start=1):
            file.write(to_json(count - 1, line, labels) + "\n")
    return count


def _write_shard(path: str, lines: Sequence[LineFeatures], first: int, dtype: str) -> None:
    import tensorflow as tf

    if posixpath.splitext(path)[1] == ".npz":
        files.write_bytes(path, to_npz(lines, dtype))
        return
    with files.atomic_replace(path) as temporary, tf.io.TFRecordWriter(temporary) as writer:
        for index, line in enumerate(lines, start=first):
            writer.write(to_example(index, line, dtype))
