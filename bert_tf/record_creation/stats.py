"""Statistics of records: counts, added up over batches, and their report.

Letters: B batch, S sequence length, P predictions per sequence.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_tf.masking.algorithm import Vocabulary
from bert_tf.masking.random_draws import splitmix64
from bert_tf.record_creation.records_config import RecordsConfig
from bert_tf.tokenization.vocabulary import count_unknown, unknown_warning

# The largest number of hashes in a sample. If there are more, the hashes with the
# largest values are dropped, so that equal hashes are kept or dropped together.
MAX_HASHES = 1 << 18


@dataclasses.dataclass
class Stats:
    """Counts over a set of records.

    Attributes:
        lengths: int64 [S + 1], the number of sequences that have 0, 1, ... tokens.
        predictions: int64 [P + 1], the number of sequences that have 0, 1, ...
            predictions.
        unknown: int64 [2], the numbers of [UNK] and of all tokens, before masking and
            without [CLS] and [SEP].
        sample: uint64 [N], hashes of a sample of the unmasked sequences. If several
            sequences are equal, the sample contains either all or none of them.
        random_next: Number of sequences with next_sentence_labels 1.
        masked: Number of predictions whose input token is [MASK].
        kept: Number of predictions whose input token is the token to predict.
        replaced: Number of predictions whose input token is any other token.
        truncated: Number of sequences from which truncation removed tokens.
        trimmed_tokens: Number of tokens that truncation removed.
    """

    lengths: np.ndarray
    predictions: np.ndarray
    unknown: np.ndarray
    sample: np.ndarray
    random_next: int = 0
    masked: int = 0
    kept: int = 0
    replaced: int = 0
    truncated: int = 0
    trimmed_tokens: int = 0
    documents: int = 0
    sentences: int = 0

    @classmethod
    def empty(cls, config: RecordsConfig) -> "Stats":
        """Returns the counts of an empty set of records."""
        return cls(
            np.zeros(config.max_seq_length + 1, np.int64),
            np.zeros(config.max_predictions_per_seq + 1, np.int64),
            np.zeros(2, np.int64),
            np.zeros(0, np.uint64),
        )

    def __add__(self, other: "Stats") -> "Stats":
        sums = {
            name: value + getattr(other, name)
            for name, value in vars(self).items()
            if name != "sample"
        }
        return Stats(**sums, sample=join_hashes(self.sample, other.sample))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "Stats":
        """Returns the counts whose attributes have the values of `arrays`, by name."""
        values: dict[str, Any] = {
            k: v if v.ndim else v.item() for k, v in arrays.items()
        }
        return cls(**values)

    def report(self) -> dict[str, Any]:
        """Returns the content of stats.json: counts, and shares in [0, 1]."""
        # The histograms give the totals: entry n counts the examples with n tokens.
        examples = int(self.lengths.sum())
        tokens = int(self.lengths @ np.arange(len(self.lengths)))
        predictions = int(self.predictions @ np.arange(len(self.predictions)))
        positions = examples * (len(self.lengths) - 1)

        unknown, text_tokens = self.unknown.tolist()
        distinct = len(np.unique(self.sample))
        return {
            "documents": self.documents,
            "sentences": self.sentences,
            "examples": examples,
            "tokens": tokens,
            "tokens_per_example": _share(tokens, examples),
            "padding_share": 1 - _share(tokens, positions),
            "truncated_share": _share(self.truncated, examples),
            "trimmed_tokens": self.trimmed_tokens,
            "unknown_tokens": unknown,
            "text_tokens": text_tokens,
            "unknown_share": _share(unknown, text_tokens),
            "random_next_share": _share(self.random_next, examples),
            "predictions": predictions,
            "predictions_per_example": _share(predictions, examples),
            "predictions_per_token": _share(predictions, tokens),
            "examples_without_predictions": int(self.predictions[0]),
            "mask_token_share": _share(self.masked, predictions),
            "kept_token_share": _share(self.kept, predictions),
            "random_token_share": _share(self.replaced, predictions),
            "duplicate_share": 1 - _share(distinct, len(self.sample))
            if distinct
            else 0.0,
            "lengths": _histogram(self.lengths),
            "predictions_histogram": _histogram(self.predictions),
        }


def _share(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0


def _histogram(counts: np.ndarray) -> dict[str, int]:
    return {str(value): int(counts[value]) for value in np.flatnonzero(counts)}


def measure(columns: Mapping[str, np.ndarray], words: Vocabulary) -> Stats:
    """Computes the counts of a batch with the columns of `record_format.PRETRAINING`."""
    ids = columns["input_ids"]
    positions = columns["masked_lm_positions"]
    labels = columns["masked_lm_ids"]
    is_prediction = columns["masked_lm_weights"] > 0

    # Each prediction shows [MASK], the token itself, or a random token.
    shown = np.take_along_axis(ids, positions, 1)
    masked = is_prediction & (shown == words.mask_id)
    kept = is_prediction & ~masked & (shown == labels)

    lengths = columns["input_mask"].sum(axis=1)
    unmasked = unmasked_ids(ids, positions, labels, is_prediction)
    tokens = unmasked[columns["input_mask"] > 0]
    special_ids = (words.cls_id, words.sep_id)
    return Stats(
        lengths=np.bincount(lengths, minlength=ids.shape[1] + 1),
        predictions=np.bincount(
            is_prediction.sum(axis=1), minlength=shown.shape[1] + 1
        ),
        random_next=int(columns["next_sentence_labels"].sum()),
        masked=int(masked.sum()),
        kept=int(kept.sum()),
        replaced=int(is_prediction.sum() - masked.sum() - kept.sum()),
        unknown=np.array(count_unknown(tokens, words.unk_id, special_ids)),
        sample=row_hashes(unmasked),
    )


def unmasked_ids(
    ids: np.ndarray,
    positions: np.ndarray,
    labels: np.ndarray,
    is_prediction: np.ndarray,
) -> np.ndarray:
    """Undoes the masking of a batch of records: returns the original ids, int [B, S].

    Args:
        ids: int [B, S], the masked ids.
        positions: int [B, P], the positions of the labels; 0 where `is_prediction` is
            False.
        labels: int [B, P], the ids that were at `positions` before masking.
        is_prediction: bool [B, P], False for unused predictions.
    """
    unmasked = ids.copy()
    np.put_along_axis(
        unmasked, positions, np.where(is_prediction, labels, ids[:, :1]), 1
    )
    return unmasked


def row_hashes(rows: np.ndarray) -> np.ndarray:
    """Returns a hash of each row of an integer array [B, N]: uint64 [B]."""
    weights = splitmix64(np.arange(1, rows.shape[1] + 1, dtype=np.uint64))
    with np.errstate(over="ignore"):
        return splitmix64(rows.astype(np.uint64) @ weights)


def join_hashes(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Joins two arrays of hashes, and keeps the `MAX_HASHES` smallest ones."""
    joined = np.concatenate([first, second])
    if len(joined) <= MAX_HASHES:
        return joined
    return np.partition(joined, MAX_HASHES)[:MAX_HASHES]


def format_report(report: Mapping[str, Any]) -> str:
    """Returns the most important figures of a report as a few lines of text."""
    r = report
    lines = [
        f"  text            {r['documents']:,} documents, {r['sentences']:,} sentences",
        f"  examples        {r['examples']:,}",
        f"  tokens          {r['tokens']:,}, {r['tokens_per_example']:.1f} per "
        f"example, {r['padding_share']:.1%} of the positions are padding",
        f"  truncated       {r['truncated_share']:.1%} of the examples, "
        f"{r['trimmed_tokens']:,} tokens",
        f"  next sentence   {r['random_next_share']:.1%} random",
        f"  predictions     {r['predictions_per_example']:.2f} per example, "
        f"{r['predictions_per_token']:.1%} of the tokens: {r['mask_token_share']:.1%} "
        f"[MASK], {r['random_token_share']:.1%} random, {r['kept_token_share']:.1%} "
        "kept",
        f"  duplicates      {r['duplicate_share']:.1%} of the examples repeat another, "
        "compared before masking",
        f"  [UNK]           {r['unknown_share']:.2%} of the tokens without [CLS] and "
        "[SEP]",
    ]

    if warning := unknown_warning(
        r["unknown_tokens"], r["text_tokens"], "tokens of the records"
    ):
        lines.append(f"  WARNING: {warning}")

    # These counts are 0 also if the records were read from files, which do not contain
    # the counts.
    if not r["trimmed_tokens"]:
        del lines[3]
    if not r["documents"]:
        del lines[0]
    return "\n".join(lines)
