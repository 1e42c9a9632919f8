"""The steps from text to records, each from files to files.

read: a segment -> its documents as token ids; pair: a segment -> rows sorted by key; mask: a run
of the shuffled order -> a part of a shard. Each file appears whole or not at all, and what it holds
does not depend on who made it or when.

Imports `features`, `tokenization`.
"""

import dataclasses
import functools
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from bert_tf import features
from data_prep.pretraining_data import corpus, masking, pairing, reading, stats
from data_prep.pretraining_data.settings import RecordsConfig
from data_prep.runners import shards, shuffling

_ENCODE_BATCH = 2048


@dataclasses.dataclass(frozen=True)
class Work:
    """What every step knows.

    Attributes:
        config: What decides the bytes.
        folder: Local folder of the intermediate files.
        sizes: Bytes of text in each segment of the input.
    """

    config: RecordsConfig
    folder: str
    sizes: tuple[int, ...]

    @property
    def splits(self) -> tuple[str, ...]:
        """The parts that documents are dealt to."""
        return ("train", "eval") if self.config.eval_fraction else ("train",)

    def path(self, kind: str, split: str, number: int) -> str:
        """Name of an intermediate file; kind is documents, rows, part, stats or shard."""
        return os.path.join(self.folder, f"{kind}-{split}-{number:06d}")

    def paths(self, kind: str, split: str) -> list[str]:
        """The names of documents or rows of all segments."""
        return [self.path(kind, split, number) for number in range(len(self.sizes))]


@functools.lru_cache(maxsize=1)
def tokenizer(vocab_file: str, do_lower_case: bool) -> Any:
    """The tokenizer, loaded once a process."""
    from bert_tf.tokenization import BertTokenizer

    return BertTokenizer(vocab_file, do_lower_case)


@functools.lru_cache(maxsize=1)
def vocabulary(config: RecordsConfig) -> pairing.Vocabulary:
    """What pairing and masking need to know of the vocabulary.

    Raises:
        InputError: The vocabulary cannot be used.
    """
    loaded = tokenizer(config.vocab_file, config.do_lower_case)
    return pairing.Vocabulary(
        size=loaded.vocab_size,
        cls_id=loaded.cls_id,
        sep_id=loaded.sep_id,
        mask_id=loaded.mask_id,
        continues=np.array([token.startswith("##") for token in loaded.vocabulary]),
        sha256=loaded.vocabulary_sha256,
    )


def tokenized(config: RecordsConfig, number: int, segment: reading.Segment) -> corpus.Documents:
    """Text -> token ids, for one segment."""
    tokenize = tokenizer(config.vocab_file, config.do_lower_case).tokenize
    blocks = reading.read(config, segment)
    return corpus.tokenize(number, blocks, tokenize, vocabulary(config).size)


def dealt(config: RecordsConfig, documents: corpus.Documents) -> dict[str, corpus.Documents]:
    """The documents of each split."""
    if not config.eval_fraction:
        return {"train": documents}
    held_out = pairing.held_out(config, documents.ids)
    return {"train": documents.where(~held_out), "eval": documents.where(held_out)}


def paired(config: RecordsConfig, documents: corpus.Documents, own: int) -> Iterator[np.ndarray]:
    """Documents, first the `own` of a segment, then its pool -> batches of rows, by key."""
    return pairing.paired_rows(config, documents, own, vocabulary(config))


def encoded(
    config: RecordsConfig, rows: np.ndarray, sampled: float, counts: list[stats.Stats]
) -> Iterator[list[bytes]]:
    """Rows -> batches of serialized examples; what they hold is added to `counts`."""
    for start in range(0, len(rows), _ENCODE_BATCH):
        batch = rows[start : start + _ENCODE_BATCH]
        columns = masking.mask_rows(config, batch, vocabulary(config))
        counted = stats.measure(columns, vocabulary(config).mask_id, sampled)
        counted.truncated = int((batch["trimmed"] > 0).sum())
        counted.trimmed_tokens = int(batch["trimmed"].sum())
        counts.append(counted)
        yield features.encode(columns, features.PRETRAINING)


def row_dtype(config: RecordsConfig) -> np.dtype:
    """Of the rows of this vocabulary and length."""
    return pairing.row_dtype(config, vocabulary(config).size)


def row_bytes(config: RecordsConfig) -> int:
    """Size of a row in memory and on disk."""
    return int(row_dtype(config).itemsize)


# As tasks of a worker -------------------------------------------------------------------------


def read_segment(work: Work, number: int, segment: reading.Segment) -> None:
    """Text -> `documents-<split>-<number>`."""
    for split, documents in dealt(work.config, tokenized(work.config, number, segment)).items():
        shuffling.save_documents(work.path("documents", split, number), documents)


def pair_segment(work: Work, split: str, number: int) -> None:
    """Documents of a segment and of its pool -> `rows-<split>-<number>`."""
    own = work.path("documents", split, number)
    pool = [
        work.path("documents", split, each)
        for each in pairing.pool_segments(work.config, number, work.sizes)
    ]
    documents = shuffling.load_documents([own, *pool])
    batches = paired(work.config, documents, shuffling.count_documents(own))
    shuffling.save_rows(work.path("rows", split, number), batches, row_dtype(work.config))


def mask_part(work: Work, split: str, number: int, part: shuffling.Part, sampled: float) -> None:
    """Rows of all segments -> `part-<split>-<number>`, and its counts as `stats-...`."""
    rows = shuffling.load_part(work.paths("rows", split), part, row_dtype(work.config))
    counts = [stats.Stats.empty(work.config)]
    with shuffling.appearing(work.path("part", split, number)) as temporary:
        shards.write_records(temporary, encoded(work.config, rows, sampled, counts))
        shuffling.write_small(work.path("stats", split, number), stats.total(counts).to_bytes())
