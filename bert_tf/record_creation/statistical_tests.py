"""Compares the distribution of records with the distribution that the settings define.

A figure is a share or a histogram, computed from the records. A figure is reported as
unexpected if a figure as extreme has a probability of less than one in a million for
correct records. A share is compared with an interval of the binomial distribution. A
histogram is compared with the expected histogram by a chi-square test.

Letters: B batch, S sequence length, P predictions per sequence, V vocabulary.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from bert_tf.masking import algorithm
from bert_tf.masking.algorithm import Vocabulary
from bert_tf.record_creation import stats
from bert_tf.record_creation.records_config import RecordsConfig
from bert_tf.tokenization.vocabulary import UNKNOWN_LIMIT

_FALSE_ALARM_RATE = 1e-6
_MIN_EXPECTED_COUNT = 20  # smallest expected count in a cell of a chi-square test
# Maps the name of a way of rounding, as shown in the report, to the value of
# `round_half_up`.
_ROUNDING = {"half to even, as Python 3": False, "half up, as Python 2": True}
# One draw decides whether all sequences of a document are short. With
# `replace_whole_words`, one draw decides how all tokens of a word are replaced. The
# expected intervals are wide enough if all documents and words are within the following
# two limits.
_MAX_SEQUENCES_PER_DOCUMENT = 256
_MAX_TOKENS_PER_WORD = 8
# Only records of at least this many tokens are compared: shorter records may be equal
# by chance.
_MIN_LENGTH_OF_EQUAL_RECORDS = 32
_MAX_EQUAL_SHARE = 0.001


class Comparison(NamedTuple):
    """A measured figure and its expected values, as strings, and whether both agree."""

    name: str
    measured: str
    expected: str
    as_expected: bool


class DistributionCheck:
    """Adds up counts over batches of records, and compares the sums with expected values.

    `columns` are the columns of any batch. Their shapes define the lengths S and P,
    which replace the lengths in `config`.
    """

    def __init__(
        self,
        config: RecordsConfig,
        vocabulary: Vocabulary,
        columns: Mapping[str, np.ndarray],
    ) -> None:
        length = columns["input_ids"].shape[1]
        config = dataclasses.replace(
            config,
            max_seq_length=length,
            max_predictions_per_seq=columns["masked_lm_ids"].shape[1],
        )
        self._config = config
        self._vocabulary = vocabulary
        self.stats = stats.Stats.empty(config)
        # If single tokens are masked, the length of a record determines the record's
        # number of predictions.
        self._masks_tokens = (
            not config.do_whole_word_mask and config.max_ngram_size == 1
        )
        # Number of records with a wrong number of predictions, for each way of
        # rounding.
        self._wrong_counts = dict.fromkeys(_ROUNDING, 0)
        self._labels, self._random_tokens = np.zeros((2, vocabulary.size))
        self._positions, self._expected_positions = np.zeros((2, length))
        self._record_hashes: np.ndarray = np.zeros(0, np.uint64)

    def add(self, columns: Mapping[str, np.ndarray]) -> None:
        """Adds the counts of a batch of records that break no rule of `record_rules`."""
        ids = columns["input_ids"]
        positions = columns["masked_lm_positions"]
        labels = columns["masked_lm_ids"]
        is_prediction = columns["masked_lm_weights"] > 0
        lengths = columns["input_mask"].sum(axis=1)
        counts = is_prediction.sum(axis=1)
        vocabulary = self._vocabulary
        self.stats += stats.measure(columns, vocabulary)

        # In each record, all tokens but [CLS] and [SEP] are predicted equally often.
        unmasked = stats.unmasked_ids(ids, positions, labels, is_prediction)
        is_special = (unmasked == vocabulary.cls_id) | (unmasked == vocabulary.sep_id)
        maskable = (columns["input_mask"] > 0) & ~is_special
        maskable_count = maskable.sum(axis=1)
        self._expected_positions += (counts / np.maximum(maskable_count, 1)) @ maskable

        # The number of predictions, for both ways to round it.
        for rounding, half_up in _ROUNDING.items():
            config = dataclasses.replace(self._config, round_half_up=half_up)
            most = np.minimum(
                algorithm.prediction_counts(config, lengths), maskable_count
            )
            is_wrong = counts != most if self._masks_tokens else counts > most
            self._wrong_counts[rounding] += int(is_wrong.sum())

        # What stands in place of the predicted tokens, and where they are.
        shown = np.take_along_axis(ids, positions, 1)
        is_random = is_prediction & (shown != labels) & (shown != vocabulary.mask_id)
        self._labels += np.bincount(labels[is_prediction], minlength=vocabulary.size)
        self._random_tokens += np.bincount(shown[is_random], minlength=vocabulary.size)
        self._positions += np.bincount(positions[is_prediction], minlength=ids.shape[1])

        # Long records that are equal show that work was repeated.
        is_long = lengths >= _MIN_LENGTH_OF_EQUAL_RECORDS
        hashes = stats.row_hashes(
            np.concatenate([ids, positions, labels], axis=1)[is_long]
        )
        self._record_hashes = stats.join_hashes(self._record_hashes, hashes)

    def comparisons(self) -> Iterator[Comparison]:
        """Compares each figure with its expected values; needs at least one added record."""
        share = self.stats.unknown[0] / max(self.stats.unknown[1], 1)
        expected = f"at most {UNKNOWN_LIMIT:.0%}"
        yield Comparison(
            "[UNK]", f"{share:.2%}", expected, bool(share <= UNKNOWN_LIMIT)
        )
        yield self._compare_prediction_counts()
        if self._config.objective != "causal":
            yield from self._compare_predictions()
        yield from self._compare_sequences()

    def _compare_prediction_counts(self) -> Comparison:
        config = self._config
        total = int(self.stats.lengths.sum())
        rounding, wrong = min(self._wrong_counts.items(), key=lambda item: item[1])
        measured = (
            f"{total - wrong:,} of {total:,} records have this number, rounded "
            f"{rounding}"
        )
        most = "" if self._masks_tokens else "at most "
        expected = (
            "none"
            if config.objective == "causal"
            else f"{most}{config.masked_lm_prob} of the tokens, 1 to "
            f"{config.max_predictions_per_seq}"
        )
        return Comparison("predictions for each length", measured, expected, wrong == 0)

    def _compare_predictions(self) -> Iterator[Comparison]:
        config = self._config
        total = int(self._labels.sum())
        group = (
            _MAX_TOKENS_PER_WORD * config.max_ngram_size
            if config.replace_whole_words
            else 1
        )

        # A random token is [MASK] with probability 1/V, and is the token to predict
        # with probability 1/V.
        mask = config.mask_token_prob
        replaced = config.random_token_prob
        chance = replaced / self._vocabulary.size
        for name, count, probability in (
            ("[MASK] at a prediction", self.stats.masked, mask + chance),
            ("a random token", self.stats.replaced, replaced - 2 * chance),
            ("the token itself", self.stats.kept, 1 - mask - replaced + chance),
        ):
            yield _compare_share(
                name, count, total=total, probability=probability, group=group
            )

        # Random tokens that are [MASK] or the token to predict are not counted. All
        # other tokens are equally probable.
        expected = 1 - self._labels / max(total, 1)
        expected[self._vocabulary.mask_id] = 0
        yield _compare_histograms(
            "random tokens over the vocabulary", self._random_tokens, expected
        )
        if self._masks_tokens:
            yield _compare_histograms(
                "predictions over positions", self._positions, self._expected_positions
            )

    def _compare_sequences(self) -> Iterator[Comparison]:
        total = int(self.stats.lengths.sum())
        # If a chunk (see `sentence_pairs`) is one sentence, B is always a random
        # next sentence. But a record does not state how many sentences its chunk had.
        note = ", more where chunks are single sentences" if self._config.paired else ""
        probability = 0.5 if self._config.paired else 0.0
        yield _compare_share(
            "random next sentences",
            self.stats.random_next,
            total=total,
            probability=probability,
            note=note,
        )

        # A sequence may exceed a short target length, because its last sentence may be
        # long. So some sequences have the full length even if all documents have a
        # short target length.
        yield _compare_share(
            f"sequences below {self._config.max_seq_length} tokens",
            total - int(self.stats.lengths[-1]),
            total=total,
            probability=min(self._config.short_seq_prob, 0.5),
            group=_MAX_SEQUENCES_PER_DOCUMENT,
            note=", more where documents end",
        )
        if self._config.objective != "causal":
            hashes = self._record_hashes
            share = (len(hashes) - len(np.unique(hashes))) / max(len(hashes), 1)
            name = (
                f"records of {_MIN_LENGTH_OF_EQUAL_RECORDS} tokens and more that equal "
                "another"
            )
            expected = f"at most {_MAX_EQUAL_SHARE:.1%}"
            yield Comparison(name, f"{share:.2%}", expected, share <= _MAX_EQUAL_SHARE)


def _compare_share(
    name: str,
    count: int,
    total: int,
    probability: float,
    group: int = 1,
    note: str = "",
) -> Comparison:
    """Compares the share `count` / `total` with its expected interval.

    For correct records, the share is outside the interval with a probability of one in
    a million.

    Args:
        group: Largest number of elements that share one random draw.
        note: The reason why the share may be above the interval; "" if the share must
            be inside.
    """
    import scipy.stats  # type: ignore[import-untyped]

    draws = max(math.ceil(total / group), 1)
    share = count / max(total, 1)
    probability = min(max(probability, 0.0), 1.0)
    least, most = scipy.stats.binom.interval(1 - _FALSE_ALARM_RATE, draws, probability)
    least = least / draws
    most = 1.0 if note else most / draws
    as_expected = bool(not total or least <= share <= most)
    expected = f"{probability:.2%} ({least:.2%} to {most:.2%}){note}"
    return Comparison(name, f"{share:.2%}", expected, as_expected)


def _compare_histograms(
    name: str, observed: np.ndarray, expected: np.ndarray
) -> Comparison:
    """Tests by chi-square whether counts [N] have the expected proportions [N].

    Adjacent counts are joined into cells with an expected count of
    `_MIN_EXPECTED_COUNT` or more.
    """
    import scipy.stats

    expected = expected * (observed.sum() / max(expected.sum(), 1e-9))

    # A cell begins at each index in `starts`.
    starts = [0]
    cell_count = 0.0
    for index, count in enumerate(expected.tolist()):
        if cell_count >= _MIN_EXPECTED_COUNT:
            starts.append(index)
            cell_count = 0.0
        cell_count += count
    if cell_count < _MIN_EXPECTED_COUNT:
        starts.pop()
    if len(starts) < 2:
        return Comparison(name, "too few for a test", "-", True)
    cells = (np.add.reduceat(counts, starts) for counts in (observed, expected))
    statistic, p_value = scipy.stats.chisquare(*cells)
    measured = (
        f"chi-square {statistic:,.0f} over {len(starts):,} cells, p-value {p_value:.2g}"
    )
    expected_range = f"p-value of {_FALSE_ALARM_RATE} or more"
    return Comparison(
        name, measured, expected_range, bool(p_value >= _FALSE_ALARM_RATE)
    )
