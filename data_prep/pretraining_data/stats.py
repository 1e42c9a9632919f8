"""What records hold, counted batch by batch, and the report of it.

Imports numpy only. Letters: B batch, S sequence length, P predictions per sequence.
"""

import dataclasses
import io
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from data_prep.pretraining_data.counter_based_random import splitmix64
from data_prep.pretraining_data.settings import RecordsConfig

# About how many sequences are compared with each other to find the share of duplicates.
SAMPLE_SIZE = 1 << 17


@dataclasses.dataclass
class Stats:
    """Counts over examples.

    Attributes:
        lengths: int64 [S + 1], how many sequences have 0, 1, ... tokens.
        predictions: int64 [P + 1], how many sequences have 0, 1, ... tokens to predict.
        random_next: Sequences with next_sentence_labels 1.
        masked: Predictions in whose place stands [MASK].
        kept: Predictions in whose place stands the token itself.
        replaced: Predictions in whose place stands another token.
        truncated: Sequences that lost tokens to truncation.
        trimmed_tokens: Tokens they lost.
        sample: uint64 [...], hashes of the unmasked sequences, equal ones sampled together.
    """

    lengths: np.ndarray
    predictions: np.ndarray
    random_next: int = 0
    masked: int = 0
    kept: int = 0
    replaced: int = 0
    truncated: int = 0
    trimmed_tokens: int = 0
    sample: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, np.uint64))

    @classmethod
    def empty(cls, config: RecordsConfig) -> "Stats":
        """Counts of nothing."""
        return cls(
            np.zeros(config.max_seq_length + 1, np.int64),
            np.zeros(config.max_predictions_per_seq + 1, np.int64),
        )

    def __add__(self, other: "Stats") -> "Stats":
        sums: dict[str, Any] = {
            field.name: getattr(self, field.name) + getattr(other, field.name)
            for field in dataclasses.fields(self)
            if field.name != "sample"
        }
        return Stats(**sums, sample=np.concatenate([self.sample, other.sample]))

    def to_bytes(self) -> bytes:
        """The counts as the content of an .npz file."""
        content = io.BytesIO()
        np.savez(content, **dataclasses.asdict(self))
        return content.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Stats":
        """What `to_bytes` gave."""
        with np.load(io.BytesIO(content)) as arrays:
            values: dict[str, Any] = {name: arrays[name] for name in arrays.files}
        values = {name: v if v.ndim else int(v) for name, v in values.items()}
        return cls(**values)

    def report(self) -> dict[str, Any]:
        """Figures to read: counts, and shares in [0, 1]."""
        examples = int(self.lengths.sum())
        tokens = int(self.lengths @ np.arange(len(self.lengths)))
        predictions = int(self.predictions @ np.arange(len(self.predictions)))
        size = len(self.lengths) - 1
        distinct = len(np.unique(self.sample))
        return {
            "examples": examples,
            "tokens": tokens,
            "tokens_per_example": _share(tokens, examples),
            "padding_share": 1 - _share(tokens, examples * size),
            "truncated_share": _share(self.truncated, examples),
            "trimmed_tokens": self.trimmed_tokens,
            "random_next_share": _share(self.random_next, examples),
            "predictions": predictions,
            "predictions_per_example": _share(predictions, examples),
            "predictions_per_token": _share(predictions, tokens),
            "examples_without_predictions": int(self.predictions[0]),
            "mask_token_share": _share(self.masked, predictions),
            "kept_token_share": _share(self.kept, predictions),
            "random_token_share": _share(self.replaced, predictions),
            "duplicate_share": 1 - _share(distinct, len(self.sample)) if len(self.sample) else 0.0,
            "lengths": _histogram(self.lengths),
            "predictions_histogram": _histogram(self.predictions),
        }


def sampled_share(examples: int) -> float:
    """The share of so many sequences that makes a sample of about `SAMPLE_SIZE`, in [0, 1]."""
    return min(SAMPLE_SIZE / max(examples, 1), 1.0)


def total(counts: Iterable[Stats]) -> Stats:
    """The sum of at least one."""
    first, *others = counts
    return sum(others, first)


def _share(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0


def _histogram(counts: np.ndarray) -> dict[str, int]:
    return {str(value): int(counts[value]) for value in np.flatnonzero(counts)}


def measure(columns: Mapping[str, np.ndarray], mask_id: int, sampled: float = 1.0) -> Stats:
    """Counts a batch of records.

    Args:
        columns: The columns of `bert_tf.features.PRETRAINING`.
        mask_id: Id of [MASK].
        sampled: Share of the sequences to look for duplicates in, in [0, 1].
    """
    ids = columns["input_ids"]
    real = np.asarray(columns["masked_lm_weights"]) > 0
    now = np.take_along_axis(ids, columns["masked_lm_positions"], 1)
    masked = real & (now == mask_id)
    kept = real & ~masked & (now == columns["masked_lm_ids"])
    lengths = columns["input_mask"].sum(axis=1)
    return Stats(
        lengths=np.bincount(lengths, minlength=ids.shape[1] + 1),
        predictions=np.bincount(real.sum(axis=1), minlength=real.shape[1] + 1),
        random_next=int(columns["next_sentence_labels"].sum()),
        masked=int(masked.sum()),
        kept=int(kept.sum()),
        replaced=int(real.sum() - masked.sum() - kept.sum()),
        sample=_sample(unmasked(columns), sampled),
    )


def unmasked(columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """The sequences as they were before masking, int [B, S]."""
    ids, at = columns["input_ids"].copy(), columns["masked_lm_positions"]
    real = np.asarray(columns["masked_lm_weights"]) > 0
    np.put_along_axis(ids, at, np.where(real, columns["masked_lm_ids"], ids[:, :1]), 1)
    return ids


def hashes(rows: np.ndarray) -> np.ndarray:
    """uint64 [B]: equal for rows of equal integers, int [B, n]."""
    weights = splitmix64(np.arange(1, rows.shape[1] + 1, dtype=np.uint64))
    with np.errstate(over="ignore"):
        return splitmix64(rows.astype(np.uint64) @ weights)


def _sample(ids: np.ndarray, sampled: float) -> np.ndarray:
    found = hashes(ids)
    return found[found <= np.uint64(min(int(sampled * 2.0**64), 2**64 - 1))]


def text(report: Mapping[str, Any]) -> str:
    """The report as a few readable lines."""
    r = report
    truncated: tuple[str, ...] = (
        f"  truncated       {r['truncated_share']:.1%} of the examples, "
        f"{r['trimmed_tokens']:,} tokens",
    )
    # Records themselves do not tell.
    truncated = truncated if r["trimmed_tokens"] else ()
    return "\n".join(
        [
            f"  examples        {r['examples']:,}",
            f"  tokens          {r['tokens']:,}, {r['tokens_per_example']:.1f} an example, "
            f"{r['padding_share']:.1%} of the places are padding",
            *truncated,
            f"  next sentence   {r['random_next_share']:.1%} random",
            f"  predictions     {r['predictions_per_example']:.2f} an example, "
            f"{r['predictions_per_token']:.1%} of the tokens: {r['mask_token_share']:.1%} [MASK], "
            f"{r['random_token_share']:.1%} random, {r['kept_token_share']:.1%} kept",
            f"  duplicates      {r['duplicate_share']:.1%} of the examples",
        ]
    )
