"""Whether what many records hold is distributed as the released procedure has it.

A figure is as expected if it is so close to its expectation that chance alone would take a correct
file further away less than once in a million times. For a share of n independent draws Bernstein's
inequality says how close, for small n too; for a distribution it is a chi-square test over cells of
20 expected counts or more.

Imports numpy only. Letters: B batch, S sequence length, P predictions per sequence, V vocabulary.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from data_prep.pretraining_data import masking, stats
from data_prep.pretraining_data.pairing import Vocabulary
from data_prep.pretraining_data.settings import RecordsConfig

_LOG_ODDS = math.log(2e6)
_CELL = 20
_LARGEST_Z = 5.0
# Sequences of a document share the draw of a short length; this many at most is assumed.
_SEQUENCES_A_DOCUMENT = 256
# Tokens of a word share the draw of what to do with it under `replace_whole_words`.
_TOKENS_A_WORD = 8
# Below, two records may well be equal by chance.
_LONG = 32
_SAMPLE_SIZE = 1 << 20
_EQUAL_SHARE = 0.001


@dataclasses.dataclass(frozen=True)
class Figure:
    """Something measured.

    Attributes:
        name: What it is.
        measured: In words.
        expected: In words.
        as_expected: Whether the one is what the other lets expect.
    """

    name: str
    measured: str
    expected: str
    as_expected: bool


class Tally:
    """Counts of all records, batch by batch.

    Args:
        config: The flags the records should have been made with; S and P as they are in them.
        vocabulary: Size and special ids.
    """

    def __init__(self, config: RecordsConfig, vocabulary: Vocabulary) -> None:
        self.config, self.vocabulary = config, vocabulary
        self.stats = stats.Stats.empty(config)
        self.misfits = {"half to even, as Python 3": 0, "half up, as Python 2": 0}
        self.labels: np.ndarray = np.zeros(vocabulary.size, np.int64)
        self.replacements: np.ndarray = np.zeros(vocabulary.size, np.int64)
        self.positions: np.ndarray = np.zeros(config.max_seq_length, np.int64)
        self.expected_positions = np.zeros(config.max_seq_length)
        # Of sequences as they were before masking, and of whole records.
        self._sequences: np.ndarray = np.zeros(0, np.uint64)
        self._records: np.ndarray = np.zeros(0, np.uint64)
        self._most = 2**64 - 1

    @property
    def exact(self) -> bool:
        """Whether the number of predictions follows from the length alone."""
        return not self.config.do_whole_word_mask and self.config.max_ngram_size == 1

    def add(self, columns: Mapping[str, np.ndarray]) -> None:
        """Counts records that break no rule (`auditing.violations`)."""
        self.stats += stats.measure(columns, self.vocabulary.mask_id, sampled=0.0)
        real, at = columns["masked_lm_weights"] > 0, columns["masked_lm_positions"]
        labels = columns["masked_lm_ids"]
        lengths, found = columns["input_mask"].sum(axis=1), real.sum(axis=1)
        for name, half_up in zip(self.misfits, (False, True), strict=True):
            rule = dataclasses.replace(self.config, round_half_up=half_up)
            wanted = masking.prediction_counts(rule, lengths)
            misfit = found != wanted if self.exact else found > wanted
            self.misfits[name] += int(misfit.sum())
        now = np.take_along_axis(columns["input_ids"], at, 1)
        replaced = real & (now != labels) & (now != self.vocabulary.mask_id)
        size = self.vocabulary.size
        self.labels += np.bincount(labels[real], minlength=size)
        self.replacements += np.bincount(now[replaced], minlength=size)
        self._add_positions(columns, found)
        every = np.concatenate([columns["input_ids"], at, labels], axis=1)
        self._add_hashes(
            stats.hashes(stats.unmasked(columns)), stats.hashes(every[lengths >= _LONG])
        )

    def _add_hashes(self, sequences: np.ndarray, records: np.ndarray) -> None:
        """Keeps so many that equal ones are kept together: those below a bound, ever lower."""
        self._sequences = np.append(self._sequences, sequences[sequences <= self._most])
        self._records = np.append(self._records, records[records <= self._most])
        while len(self._sequences) > _SAMPLE_SIZE:
            self._most //= 2
            self._sequences = self._sequences[self._sequences <= self._most]
            self._records = self._records[self._records <= self._most]

    def _add_positions(self, columns: Mapping[str, np.ndarray], found: np.ndarray) -> None:
        whole = stats.unmasked(columns)
        ordinary = (whole != self.vocabulary.cls_id) & (whole != self.vocabulary.sep_id)
        ordinary &= columns["input_mask"] > 0
        share = found / np.maximum(ordinary.sum(axis=1), 1)
        self.expected_positions += share @ ordinary
        at = columns["masked_lm_positions"][columns["masked_lm_weights"] > 0]
        self.positions += np.bincount(at, minlength=len(self.positions))

    def report(self) -> dict[str, Any]:
        """What the records hold, as `stats.Stats.report`."""
        return dataclasses.replace(self.stats, sample=self._sequences).report()

    def figures(self) -> Iterator[Figure]:
        """Each figure beside what is expected of it."""
        yield self._predictions()
        if self.config.objective != "causal":
            yield from self._kinds()
            yield self._random_tokens()
            if self.exact:
                yield self._places()
            yield self._equal()
        yield self._next_sentences()
        yield self._short()

    def _predictions(self) -> Figure:
        rounding, misfits = min(self.misfits.items(), key=lambda item: item[1])
        total = int(self.stats.lengths.sum())
        name = "predictions for each length"
        if self.config.objective == "causal":
            measured = f"{total - misfits:,} of {total:,} records hold none"
            return Figure(name, measured, "none: each token is to be predicted", misfits == 0)
        most = "at most " if not self.exact else ""
        return Figure(
            name,
            f"{total - misfits:,} of {total:,} records hold so many, rounded {rounding}",
            f"{most}{self.config.masked_lm_prob} of the tokens, 1 to "
            f"{self.config.max_predictions_per_seq}",
            misfits == 0,
        )

    def _kinds(self) -> Iterator[Figure]:
        """The 80/10/10; a random token is the token itself, or [MASK], once in V draws each."""
        config, total = self.config, int(self.labels.sum())
        chance = config.random_token_prob / self.vocabulary.size
        rest = 1 - config.mask_token_prob - config.random_token_prob
        together = _TOKENS_A_WORD * config.max_ngram_size if config.replace_whole_words else 1
        for name, count, probability in (
            ("[MASK] at a prediction", self.stats.masked, config.mask_token_prob + chance),
            ("a random token", self.stats.replaced, config.random_token_prob - 2 * chance),
            ("the token itself", self.stats.kept, rest + chance),
        ):
            probability = min(max(probability, 0.0), 1.0)
            most = _deviation(probability, total / together) * together
            off = abs(count - probability * total)
            yield Figure(
                name,
                _percent(count, total),
                f"{probability:.2%} +- {most / max(total, 1):.2%}",
                off <= most + 1e-6,
            )

    def _random_tokens(self) -> Figure:
        """Uniform over the vocabulary, but for those that show as another kind."""
        expected = 1 - self.labels / max(int(self.labels.sum()), 1)
        expected[self.vocabulary.mask_id] = 0
        expected *= self.replacements.sum() / expected.sum()
        return _distribution("random tokens over the vocabulary", self.replacements, expected)

    def _places(self) -> Figure:
        return _distribution("predictions over positions", self.positions, self.expected_positions)

    def _next_sentences(self) -> Figure:
        total, count = int(self.stats.lengths.sum()), self.stats.random_next
        measured = f"{_percent(count, total)} random"
        name = "next sentences"
        if not self.config.paired:
            return Figure(name, measured, "none is random", count == 0)
        least = total / 2 - _deviation(0.5, total)
        # A record does not tell how many sentences its chunk had.
        every = ": here each, so each document should be one" if count == total else ""
        return Figure(
            name,
            measured,
            f"at least {max(least, 0) / max(total, 1):.2%} (half, and each chunk of a single "
            f"sentence{every})",
            least <= count,
        )

    def _short(self) -> Figure:
        total = int(self.stats.lengths.sum())
        count = total - int(self.stats.lengths[-1])
        probability = self.config.short_seq_prob
        least = probability * total - _SEQUENCES_A_DOCUMENT * _deviation(
            probability, total / _SEQUENCES_A_DOCUMENT
        )
        return Figure(
            f"sequences below {self.config.max_seq_length} tokens",
            _percent(count, total),
            f"at least {max(least, 0) / max(total, 1):.2%} (short_seq_prob; more where documents "
            "end)",
            count >= least,
        )

    def _equal(self) -> Figure:
        every = self._records
        count = len(every) - len(np.unique(every))
        return Figure(
            f"records of {_LONG} tokens and more that equal another, masks too",
            _percent(count, len(every)),
            f"at most {_EQUAL_SHARE:.1%}",
            count <= _EQUAL_SHARE * len(every),
        )


def _percent(count: int, total: int) -> str:
    return f"{count / max(total, 1):.2%}"


def _deviation(probability: float, draws: float) -> float:
    """How far from its expectation chance may take a count. Source: Bernstein's inequality."""
    third = _LOG_ODDS / 3
    variance = draws * probability * (1 - probability)
    return third + math.sqrt(third**2 + 2 * _LOG_ODDS * variance)


def _distribution(name: str, counts: np.ndarray, expected: np.ndarray) -> Figure:
    """Compares counts with expected counts, both [n], in cells of neighbours."""
    cell = np.floor(np.cumsum(expected) / _CELL - 1e-9).astype(np.int64)
    cell = np.minimum(cell, max(int(expected.sum() / _CELL) - 1, 0))
    _, cell = np.unique(cell, return_inverse=True)
    observed, wanted = np.bincount(cell, counts), np.bincount(cell, expected)
    used = wanted > 0
    freedom = int(used.sum()) - 1
    if freedom < 1:
        return Figure(
            name, "too few to tell", "-", bool(counts.sum() == counts[expected > 0].sum())
        )
    statistic = float((((observed - wanted) ** 2)[used] / wanted[used]).sum())
    # Wilson and Hilferty: the cube root of chi-square is nearly normal.
    spread = 2 / (9 * freedom)
    z = ((statistic / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
    return Figure(
        name,
        f"chi-square {statistic:,.0f} over {freedom + 1:,} cells, {z:+.1f} standard deviations",
        f"below {_LARGEST_Z:+.1f}",
        z < _LARGEST_Z,
    )
