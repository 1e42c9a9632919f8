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

import functools
import gzip
import json
import shutil
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_tf import record_format
from bert_tf.masking import algorithm
from bert_tf.record_creation import sentence_pairs, stats
from bert_tf.record_creation.records_config import RecordsConfig
from bert_tf.record_creation.segments import (
    Documents,
    Segment,
    read_sentences,
    tokenize,
)
from bert_tf.record_jobs import shuffling
from bert_tf.record_jobs.records_job import RecordsJob
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


@functools.lru_cache(maxsize=1)
def tokenizer(vocab_file: str, do_lower_case: bool | None) -> Any:
    """Returns the tokenizer, which is loaded once per process."""
    from bert_tf.tokenization import BertTokenizer

    return BertTokenizer(vocab_file, do_lower_case)


@functools.lru_cache(maxsize=1)
def vocabulary(config: RecordsConfig) -> algorithm.Vocabulary:
    """Returns the properties of the vocabulary that pairing and masking need."""
    return algorithm.Vocabulary.of(tokenizer(config.vocab_file, config.do_lower_case))


def forget_vocabulary() -> None:
    """Makes the next run of this process read the vocabulary file, which may have changed."""
    tokenizer.cache_clear()
    vocabulary.cache_clear()


def row_dtype(config: RecordsConfig) -> np.dtype:
    """Returns the dtype of a row, which depends on the vocabulary and `max_seq_length`."""
    return algorithm.row_dtype(config.max_seq_length, vocabulary(config).size)


def plan_parts(
    config: RecordsConfig, bins: np.ndarray, shard_count: int
) -> list[shuffling.Part]:
    """Divides a split into parts; `bins` is the sum of `count_bins` over all segments."""
    if bins.sum() < shard_count:
        empty = f"{shard_count - bins.sum():,} of {shard_count:,} shards are empty"
        print(f"The text gives {bins.sum():,} examples, so {empty}.", file=sys.stderr)
    return shuffling.plan_parts(bins, shard_count, row_dtype(config).itemsize)


# The stages that worker processes run -------------------------------------------------


def read_segment(job: RecordsJob, number: int, segment: Segment) -> None:
    """Tokenizes a segment of text and writes `documents-<split>-<number>`."""
    config = job.config
    tokenize_batch = tokenizer(config.vocab_file, config.do_lower_case).tokenize
    blocks = read_sentences(config, segment)
    documents = tokenize(number, blocks, tokenize_batch, vocabulary(config).size)
    by_split = {"train": documents}
    if config.eval_fraction:
        held_out = sentence_pairs.held_out(config, documents.ids)
        by_split = {
            "train": documents.where(~held_out),
            "eval": documents.where(held_out),
        }
    for split, split_documents in by_split.items():
        shuffling.save_arrays(
            job.path("documents", split, number), vars(split_documents)
        )


def pair_segment(job: RecordsJob, split: str, number: int) -> None:
    """Pairs the documents of a segment and writes `rows-<split>-<number>`."""
    pool = sentence_pairs.pool_segments(job.config, number, job.segment_sizes)
    parts = [
        Documents(**shuffling.load_arrays(job.path("documents", split, segment)))
        for segment in (number, *pool)
    ]
    rows = sentence_pairs.paired_rows(
        job.config, Documents.joined(parts), len(parts[0]), vocabulary(job.config)
    )
    shuffling.save_rows(job.path("rows", split, number), rows)


def mask_part(job: RecordsJob, split: str, number: int, part: shuffling.Part) -> None:
    """Reads the rows of a part from the files of all segments, and masks them."""
    dtype = row_dtype(job.config)
    rows = shuffling.load_part(job.segment_paths("rows", split), part, dtype)
    write_part(job, split, number, rows)


def write_part(job: RecordsJob, split: str, number: int, rows: np.ndarray) -> None:
    """Masks rows, and writes `part-<split>-<number>` and `part_stats-<split>-<number>`.

    The rows are in shuffled order. With `masking` = dynamic, the part contains unmasked
    rows.
    """
    import tensorflow as tf

    words = vocabulary(job.config)
    is_static = job.config.masking == "static"
    table = (
        record_format.PRETRAINING if is_static else record_format.unmasked(words.size)
    )
    total = stats.Stats.empty(job.config)
    with atomic_replace(job.path("part", split, number)) as temporary:
        with tf.io.TFRecordWriter(temporary) as writer:
            for start in range(0, len(rows), _ENCODE_BATCH):
                batch = rows[start : start + _ENCODE_BATCH]
                columns = algorithm.mask_rows(job.config, batch, words)
                batch_stats = stats.measure(columns, words)
                batch_stats.truncated = int((batch["trimmed"] > 0).sum())
                batch_stats.trimmed_tokens = int(batch["trimmed"].sum())
                total += batch_stats
                written = columns if is_static else algorithm.to_columns(batch)
                for example in record_format.encode(written, table):
                    writer.write(example)
        # The statistics are written before the part gets its final name. So if a part
        # exists, its statistics exist too.
        shuffling.save_arrays(job.path("part_stats", split, number), vars(total))


def assemble_shard(
    job: RecordsJob,
    split: str,
    number: int,
    parts: Mapping[int, int],
) -> None:
    """Concatenates the parts of a shard, which are TFRecord files, and removes the parts.

    Also writes `shard-<split>-<number>`, with the size and the checksum of the shard.
    `parts` maps the index of each part, in order, to its number of rows.
    """
    marker = job.path("shard", split, number)
    if exists(marker):
        return  # Beam and Dask may repeat a call
    paths = [job.path("part", split, part) for part in parts]
    with atomic_replace(job.shards[split][number]) as temporary:
        with open_binary(temporary, "wb") as file:
            # Without file name and time in the gzip header, equal content gives equal
            # bytes.
            is_packed = job.config.compression
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
