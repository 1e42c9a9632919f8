"""Layers x tokens -> vectors: BERT's hidden states as features for another model.

Imports layer 0, `tokenization` and `modeling`. Shape letters: T tokens or words of a line, K
vectors a token, H hidden.
"""

import dataclasses
import io
import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import files
from bert_tf.errors import InputError
from bert_tf.modeling import BertEncoder
from bert_tf.tokenization import BertTokenizer

COMBINATIONS = ("none", "concat", "sum")
UNITS = ("token", "word")
FORMATS = ("jsonl", "npz", "tfrecord")
_PAIR = re.compile(r"^(.*) \|\|\| (.*)$")


@dataclasses.dataclass(frozen=True)
class ExtractionConfig:
    """Which vectors to take.

    Attributes:
        layers: Outputs of blocks: 0 is the first, -1 the last, and -(L + 1) the embeddings, as
            indices into the list of blocks.
        combine: "none" keeps a vector for each layer; "concat" and "sum" make one of them. The
            paper's best for named entities is "concat" of the last four.
        unit: "token" for each WordPiece, or "word" for the mean of a word's pieces.
        max_seq_length: Tokens a line is cut to, with [CLS] and [SEP].
        batch_size: Lines computed together.

    Source: paper, section 5.3; google-research/bert `extract_features.py`.
    """

    layers: tuple[int, ...] = (-1, -2, -3, -4)
    combine: str = "none"
    unit: str = "token"
    max_seq_length: int = 128
    batch_size: int = 32


@dataclasses.dataclass(frozen=True)
class LineFeatures:
    """The features of one line.

    Attributes:
        tokens: T tokens, or words with their pieces joined; [CLS] and [SEP] among them.
        values: float32 [K, T, H], or [1, T, K*H] if concatenated.
    """

    tokens: list[str]
    values: np.ndarray


class FeatureExtractor:
    """Computes features of lines of text, batch by batch.

    A line `A ||| B` is a pair. Each batch is cut to its longest line.

    Args:
        encoder: With its weights.
        tokenizer: The one the encoder was trained with.
        config: Which vectors.

    Raises:
        InputError: A layer is not in the encoder, or the length is over its positions.
    """

    def __init__(
        self, encoder: BertEncoder, tokenizer: BertTokenizer, config: ExtractionConfig
    ) -> None:
        blocks = encoder.config.num_hidden_layers
        for layer in config.layers:
            if not -blocks - 1 <= layer < blocks:
                raise InputError(
                    f"There is no layer {layer}: the model has {blocks}, from -{blocks} to "
                    f"{blocks - 1}, and -{blocks + 1} is the embeddings."
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
        """The chosen layers' states, float32 [B, K, S, H]."""
        outputs = self._encoder({"input_ids": ids, "input_mask": mask, "segment_ids": segments})
        states = [outputs["embedding_output"], *outputs["encoder_outputs"]]
        chosen = [states[i + 1] if i >= 0 else states[i] for i in self._config.layers]
        return tf.cast(tf.stack(chosen, axis=1), tf.float32)

    def __call__(self, lines: Iterable[str]) -> Iterator[LineFeatures]:
        """Features of each line, in order."""
        batch: list[str] = []
        for line in lines:
            batch.append(line)
            if len(batch) == self._config.batch_size:
                yield from self._batch(batch)
                batch = []
        if batch:
            yield from self._batch(batch)

    def _batch(self, lines: Sequence[str]) -> list[LineFeatures]:
        pairs = [_PAIR.match(line.strip()) for line in lines]
        results: dict[int, LineFeatures] = {}
        for is_pair in (False, True):
            rows = [i for i, pair in enumerate(pairs) if bool(pair) == is_pair]
            if rows:
                texts = [pairs[i].groups() if is_pair else (lines[i].strip(),) for i in rows]  # type: ignore[union-attr]
                results.update(zip(rows, self._rows(texts), strict=True))
        return [results[i] for i in range(len(lines))]

    def _rows(self, texts: Sequence[Sequence[str]]) -> list[LineFeatures]:
        sides = [self._tokenizer.tokenize(list(side)) for side in zip(*texts, strict=True)]
        packed = self._tokenizer.pack(
            sides[0], sides[1] if len(sides) == 2 else None, self._config.max_seq_length
        )
        lengths = tf.reduce_sum(packed["input_mask"], axis=1).numpy()
        longest = int(lengths.max())
        names = ("input_ids", "input_mask", "segment_ids")
        inputs = [packed[name][:, :longest] for name in names]
        states = self._compute(*inputs).numpy()
        vocabulary = self._tokenizer.vocabulary
        return [
            self._finish([vocabulary[i] for i in ids[:length]], rows[:, :length])
            for ids, length, rows in zip(inputs[0].numpy(), lengths, states, strict=True)
        ]

    def _finish(self, tokens: list[str], values: np.ndarray) -> LineFeatures:
        if self._config.unit == "word":
            tokens, values = joined(tokens, values)
        if self._config.combine == "sum":
            values = values.sum(axis=0, keepdims=True)
        elif self._config.combine == "concat":
            values = np.concatenate(list(values), axis=-1)[None]
        return LineFeatures(tokens, values)


def joined(tokens: Sequence[str], values: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Pieces joined to words, with the mean of their vectors.

    Args:
        tokens: T tokens; those that start with ## go on a word.
        values: float [K, T, H].

    Returns:
        The words, and float [K, words, H].
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
    """One line of the original's JSONL.

    Args:
        index: Number of the line, from 0.
        features: Of the line.
        labels: What to call each of the K vectors: the indices of the layers, or one name.
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
    # The key is spelled so in the original.
    return json.dumps({"linex_index": index, "features": entries})


def to_npz(lines: Sequence[LineFeatures], dtype: str) -> bytes:
    """A compressed shard: `values` [K, sum of T, H], `tokens` [sum of T], `line_splits`.

    Line i has the columns `line_splits[i]` to `line_splits[i + 1]`.

    Args:
        lines: At least one.
        dtype: "float16" or "float32".
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
    """A `tf.train.Example`: `line_index`, `tokens`, `shape` [3], and `values` as raw bytes.

    Args:
        index: Number of the line, from 0.
        features: Of the line.
        dtype: "float16" or "float32", little-endian in `values`.
    """
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


def write(
    path: str,
    features: Iterable[LineFeatures],
    config: ExtractionConfig,
    output_format: str = "jsonl",
    dtype: str = "float32",
    lines_per_shard: int = 1000,
) -> int:
    """Writes features; each file appears whole or not at all.

    Args:
        path: The file for "jsonl"; for the others a prefix, to which `-00000.npz` and so on is
            added.
        features: Of each line, in order.
        config: What they were extracted with.
        output_format: One of `FORMATS`. "jsonl" is the original's, and large.
        dtype: "float16" or "float32", of "npz" and "tfrecord".
        lines_per_shard: Of "npz" and "tfrecord".

    Returns:
        Lines written.
    """
    if output_format == "jsonl":
        return _write_jsonl(path, features, config)
    count, shard, held = 0, 0, []
    for line in features:
        held.append(line)
        if len(held) == lines_per_shard:
            _write_shard(f"{path}-{shard:05d}.{output_format}", held, count, dtype)
            count, shard, held = count + len(held), shard + 1, []
    if held:
        _write_shard(f"{path}-{shard:05d}.{output_format}", held, count, dtype)
    return count + len(held)


def _write_jsonl(path: str, features: Iterable[LineFeatures], config: ExtractionConfig) -> int:
    labels = list(config.layers) if config.combine == "none" else [config.combine]
    count = 0
    with files.atomic_replace(path) as temporary, tf.io.gfile.GFile(temporary, "w") as file:
        for count, line in enumerate(features, start=1):
            file.write(to_json(count - 1, line, labels) + "\n")
    return count


def _write_shard(path: str, lines: Sequence[LineFeatures], first: int, dtype: str) -> None:
    if posixpath.splitext(path)[1] == ".npz":
        files.write_bytes(path, to_npz(lines, dtype))
        return
    with files.atomic_replace(path) as temporary, tf.io.TFRecordWriter(temporary) as writer:
        for index, line in enumerate(lines, start=first):
            writer.write(to_example(index, line, dtype))
