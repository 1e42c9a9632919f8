"""Whether each record is one that the released rules can make, whoever wrote it; records as text.

Imports numpy only. Letters: B batch, S sequence length, P predictions per sequence.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from data_prep.pretraining_data.pairing import Vocabulary
from data_prep.pretraining_data.stats import unmasked

_PLACES = 5


class Findings:
    """Which rules are broken, how often, and where first."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._places: dict[str, list[str]] = {}
        self._files: dict[str, list[str]] = {}

    @property
    def rules(self) -> int:
        """How many rules were looked at."""
        return len(self._counts)

    def __bool__(self) -> bool:
        return any(self._counts.values())

    def add(self, rule: str, path: str, numbers: Sequence[int] | np.ndarray) -> None:
        """Records of a file, by their places from 0, that break a rule; or none that do."""
        self._counts[rule] = self._counts.get(rule, 0) + len(numbers)
        places = self._places.setdefault(rule, [])
        for number in numbers[: _PLACES - len(places)]:
            places.append(f"{path} record {number}")

    def add_file(self, rule: str, path: str, broken: bool) -> None:
        """A file that breaks a rule as a whole, or does not."""
        self._counts[rule] = self._counts.get(rule, 0) + broken
        self._files.setdefault(rule, [])
        if broken:
            self._files[rule].append(path)

    def lines(self) -> Iterator[str]:
        """One line for each rule that is broken."""
        for rule, count in self._counts.items():
            places = self._files.get(rule, self._places.get(rule, []))
            what = "file" if rule in self._files else "record"
            if count:
                more = ", ..." if count > _PLACES else ""
                ending = "s" if count > 1 else ""
                yield f"{rule}, in {count:,} {what}{ending}: {', '.join(places[:_PLACES])}{more}"


def violations(columns: Mapping[str, np.ndarray], vocabulary: Vocabulary) -> dict[str, np.ndarray]:
    """Which records break which rule. Any numbers may stand in the columns.

    Args:
        columns: The columns of `bert_tf.features.PRETRAINING`, in a batch.
        vocabulary: Size and special ids.

    Returns:
        For each rule, in words, bool [B]: the record breaks it.
    """
    ids, segments = columns["input_ids"], columns["segment_ids"]
    at, weights = columns["masked_lm_positions"], columns["masked_lm_weights"]
    place, predicted = np.arange(ids.shape[1]), weights > 0
    real = columns["input_mask"] > 0
    length = real.sum(axis=1)[:, None]
    inside = (at >= 0) & (at < length)
    # What can be looked at in spite of numbers that point nowhere.
    looked_at = {
        **columns,
        "masked_lm_positions": np.where(inside, at, 0),
        "masked_lm_weights": np.where(inside, weights, 0),
    }
    whole = unmasked(looked_at)
    special = (whole == vocabulary.cls_id) | (whole == vocabulary.sep_id)
    last = np.take_along_axis(whole, np.maximum(length - 1, 0), 1)
    b_starts = np.diff(segments, axis=1) > 0
    has_b = b_starts.any(axis=1)[:, None]
    count = predicted.sum(axis=1)[:, None]
    on_special = np.take_along_axis(special, looked_at["masked_lm_positions"], 1)
    labels = columns["next_sentence_labels"]
    broken = {
        "an id is outside the vocabulary": _outside(ids, vocabulary),
        "an id to predict is outside the vocabulary": _outside(
            columns["masked_lm_ids"], vocabulary
        ),
        "the first token is not [CLS]": whole[:, :1] != vocabulary.cls_id,
        "the last token is not [SEP]": last != vocabulary.sep_id,
        "[CLS] or [SEP] stands inside A or B": special.sum(axis=1)[:, None] > 2 + has_b,
        "input_mask is not ones, then zeros": columns["input_mask"] != (place < length),
        "padding is not 0": ~real & ((ids != 0) | (segments != 0)),
        "segment_ids are not zeros, then ones": (
            ((segments != 0) & (segments != 1))[:, 1:]
            | (segments[:, :1] != 0)
            | (real[:, 1:] & (np.diff(segments, axis=1) < 0))
        ),
        "segment 1 does not start behind [SEP]": b_starts & (whole[:, :-1] != vocabulary.sep_id),
        "masked_lm_weights are not ones, then zeros": predicted != (np.arange(at.shape[1]) < count),
        "masked_lm_weights hold another number": (weights != 0) & (weights != 1),
        "a prediction is not at a token": predicted & ~inside,
        "masked_lm_positions do not ascend": predicted[:, 1:] & (np.diff(at, axis=1) <= 0),
        "[CLS] or [SEP] is to be predicted": predicted & inside & on_special,
        "padding of the predictions is not 0": (
            ~predicted & ((at != 0) | (columns["masked_lm_ids"] != 0))
        ),
        "next_sentence_labels is not 0 or 1": (labels != 0) & (labels != 1),
    }
    return {rule: np.any(where, axis=1) for rule, where in broken.items()}


def _outside(ids: np.ndarray, vocabulary: Vocabulary) -> np.ndarray:
    return (ids < 0) | (ids >= vocabulary.size)


def as_text(
    columns: Mapping[str, np.ndarray], number: int, tokens: Sequence[str], mask_id: int
) -> str:
    """A record as text, the predictions in place.

    `[MASK=went]` is masked, `went[=store]` was replaced and is to be "store", `went[=]` stayed.

    Args:
        columns: The columns of a batch; ids without a token are shown as <number>.
        number: Which record of it.
        tokens: The vocabulary.
        mask_id: Id of [MASK].
    """
    ids = columns["input_ids"][number]

    def token(index: int) -> str:
        return tokens[index] if 0 <= index < len(tokens) else f"<{index}>"

    shown = [token(index) for index in ids]
    predictions = zip(
        columns["masked_lm_positions"][number],
        columns["masked_lm_ids"][number],
        columns["masked_lm_weights"][number],
        strict=True,
    )
    for position, label, weight in predictions:
        if weight > 0 and 0 <= position < len(shown):
            kept = "[=]" if ids[position] == label else f"[={token(label)}]"
            masked = ids[position] == mask_id
            shown[position] = f"[MASK={token(label)}]" if masked else shown[position] + kept
    length = int((columns["input_mask"][number] > 0).sum())
    label = "random" if columns["next_sentence_labels"][number, 0] else "next"
    return f"{' '.join(shown[:length])}\n  B is {label}; {length} tokens"
