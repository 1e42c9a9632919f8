"""The stages of record creation: read, pair, mask and assemble.

Each stage reads and writes files.

- read: a segment (a group of whole documents) -> the documents of the segment as token
  ids
- pair: the documents of a segment -> rows (unmasked sequences), sorted by key
- mask: a range of the shuffled order of the rows -> a part of a shard
- assemble: the parts of a shard -> a shard (an output file)

All files are written atomically. The content of a file does not depend on the process
that writes the file.
"""

import dataclasses
import functools
import gzip
import json
import os
import shutil
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_tf import features
from bert_tf.data_prep.pretraining_data import pairing, stats
from bert_tf.data_prep.pretraining_data.documents import (
    Documents,
    Segment,
    read_sentences,
    tokenize,
)
from bert_tf.data_prep.pretraining_data.records_config import RecordsConfig
from bert_tf.data_prep.runners import shuffling
from bert_tf.masking import masked_lm
from bert_tf.storage.files import (
    atomic_replace,
    exists,
    open_binary,
    remove,
    size_and_sha256,
    write_bytes,
)

_ENCODE_BATCH = 2048
_COPY_BYTES = 1 << 22


@dataclasses.dataclass(frozen=True)
class IntermediateFiles:
    """The names of the intermediate files of a job; an argument of every stage.

    Attributes:
        config: The settings that determine the bytes of the records.
        folder: The folder of the files. On Beam, this folder may be remote.
        segment_sizes: Bytes of text in each segment of the input.
    """

    config: RecordsConfig
    folder: str
    segment_sizes: tuple[int, ...]

    def path(self, kind: str, split: str, number: int) -> str:
        """Returns the name of a file.

        Args:
            kind: "documents", "rows", "part", "part_stats" or "shard". A "shard" file
                marks a shard as complete.
            split: "train" or "eval".
            number: Index of the segment, the part or the shard.
        """
        return os.path.join(self.folder, f"{kind}-{split}-{number:06d}")

    def segment_paths(self, kind: str, split: str) -> list[str]:
        """Returns the names of the documents or the rows of all segments."""
        return [
            self.path(kind, split, number) for number in range(len(self.segment_sizes))
        ]


@functools.lru_cache(maxsize=1)
def tokenizer(vocab_file: str, do_lower_case: bool | None) -> Any:
    """Returns the tokenizer, which is loaded once per process."""
    from bert_tf.tokenization import BertTokenizer

    return BertTokenizer(vocab_file, do_lower_case)


@functools.lru_cache(maxsize=1)
def vocabulary(config: RecordsConfig) -> masked_lm.Vocabulary:
    """Returns the properties of the vocabulary that pairing and masking need.

    Raises:
        InputError: The vocabulary cannot be used.
    """
    return masked_lm.Vocabulary.of(tokenizer(config.vocab_file, config.do_lower_case))


def forget_vocabulary() -> None:
    """Reads the vocabulary again in the next run of this process.

    The file may have changed.
    """
    tokenizer.cache_clear()
    vocabulary.cache_clear()


def row_dtype(config: RecordsConfig) -> np.dtype:
    """Returns the dtype of a row: by the vocabulary and `max_seq_length`."""
    return masked_lm.row_dtype(config.max_seq_length, vocabulary(config).size)


def plan_parts(
    config: RecordsConfig, bins: np.ndarray, shard_count: int
) -> list[shuffling.Part]:
    """Divides a split into parts.

    `bins` is the sum of `shuffling.count_bins` of all segments.
    """
    if bins.sum() < shard_count:
        empty = f"{shard_count - bins.sum():,} of {shard_count:,} shards are empty"
        print(f"The text gives {bins.sum():,} examples, so {empty}.", file=sys.stderr)
    return shuffling.plan_parts(bins, shard_count, row_dtype(config).itemsize)


# The stages that worker processes run -------------------------------------------------


def read_segment(files: IntermediateFiles, number: int, segment: Segment) -> None:
    """Tokenizes a segment of text and writes `documents-<split>-<number>`."""
    config = files.config
    tokenize_batch = tokenizer(config.vocab_file, config.do_lower_case).tokenize
    blocks = read_sentences(config, segment)
    documents = tokenize(number, blocks, tokenize_batch, vocabulary(config).size)
    by_split = {"train": documents}
    if config.eval_fraction:
        held_out = pairing.held_out(config, documents.ids)
        by_split = {
            "train": documents.where(~held_out),
            "eval": documents.where(held_out),
        }
    for split, each in by_split.items():
        shuffling.save_arrays(files.path("documents", split, number), vars(each))


def pair_segment(files: IntermediateFiles, split: str, number: int) -> None:
    """Pairs the documents of a segment and writes `rows-<split>-<number>`."""
    pool = pairing.pool_segments(files.config, number, files.segment_sizes)
    paths = [files.path("documents", split, each) for each in (number, *pool)]
    parts = [Documents(**shuffling.load_arrays(path)) for path in paths]
    documents = Documents.joined(parts)
    count = len(parts[0])
    rows = pairing.paired_rows(files.config, documents, count, vocabulary(files.config))
    shuffling.save_rows(files.path("rows", split, number), rows)


def mask_part(
    files: IntermediateFiles, split: str, number: int, part: shuffling.Part
) -> None:
    """Reads the rows of a part from the files of all segments, and masks them."""
    dtype = row_dtype(files.config)
    rows = shuffling.load_part(files.segment_paths("rows", split), part, dtype)
    write_part(files, split, number, rows)


def write_part(
    files: IntermediateFiles, split: str, number: int, rows: np.ndarray
) -> None:
    """Masks rows, and writes the part and its statistics.

    The files are `part-<split>-<number>` and `part_stats-<split>-<number>`. With
    `masking` = dynamic, the part contains unmasked rows.

    Args:
        files: The names of the files.
        split: "train" or "eval".
        number: Index of the part.
        rows: The rows in shuffled order.
    """
    import tensorflow as tf

    words = vocabulary(files.config)
    is_static = files.config.masking == "static"
    table = features.PRETRAINING if is_static else features.unmasked(words.size)
    total = stats.Stats.empty(files.config)
    with atomic_replace(files.path("part", split, number)) as temporary:
        with tf.io.TFRecordWriter(temporary) as writer:
            for start in range(0, len(rows), _ENCODE_BATCH):
                batch = rows[start : start + _ENCODE_BATCH]
                columns = masked_lm.mask_rows(files.config, batch, words)
                found = stats.measure(columns, words)
                found.truncated = int((batch["trimmed"] > 0).sum())
                found.trimmed_tokens = int(batch["trimmed"].sum())
                total += found
                written = columns if is_static else masked_lm.to_columns(batch)
                for example in features.encode(written, table):
                    writer.write(example)
        # The statistics are written before the part gets its final name. So if a part
        # exists, its statistics exist too.
        shuffling.save_arrays(files.path("part_stats", split, number), vars(total))


def assemble_shard(
    files: IntermediateFiles,
    split: str,
    number: int,
    path: str,
    parts: Mapping[int, int],
) -> None:
    """Joins the parts of a shard, and writes its size and checksum to another file.

    The other file is `shard-<split>-<number>`. Concatenated TFRecord files are a valid
    TFRecord file. At the end, the parts are removed.

    Args:
        files: The names of the files.
        split: "train" or "eval".
        number: Index of the shard.
        path: The path of the shard.
        parts: The index of each part, in order, and its number of rows.
    """
    marker = files.path("shard", split, number)
    if exists(marker):
        return  # Beam and Dask may repeat a call
    paths = [files.path("part", split, part) for part in parts]
    with atomic_replace(path) as temporary:
        with open_binary(temporary, "wb") as file:
            # Without file name and time in the gzip header, equal content gives equal
            # bytes.
            is_packed = files.config.compression
            target: Any = gzip.GzipFile("", "wb", 6, file, 0) if is_packed else file
            with target:
                for part in paths:
                    with open_binary(part, "rb") as source:
                        shutil.copyfileobj(source, target, _COPY_BYTES)
        size, sha256 = size_and_sha256(temporary)
    facts = {"examples": sum(parts.values()), "bytes": size, "sha256": sha256}
    write_bytes(marker, json.dumps(facts).encode())
    for part in paths:
        remove(part)
