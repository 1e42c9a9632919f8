"""Whether records are what the released rules make, whoever wrote them; and records as text.

Imports numpy only. Letters: B batch, S sequence length, P predictions per sequence.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from data_prep.pretraining_data.masking import Vocabulary
from data_prep.pretraining_data.stats import unmasked


def violations(columns: Mapping[str, np.ndarray], vocabulary: Vocabulary) -> dict[str, int]:
    """How many records break which rule.

    Args:
        columns: The columns of `bert_tf.features.PRETRAINING`, in a batch.
        vocabulary: Size and special ids.

    Returns:
        For each rule, in words, the number of records that break it.
    """
    real = columns["input_mask"] > 0
    length = real.sum(axis=1)[:, None]
    at, weights = columns["masked_lm_positions"], columns["masked_lm_weights"]
    predicted, labels = weights > 0, columns["next_sentence_labels"]
    ids, whole = columns["input_ids"], unmasked(columns)
    place = np.arange(ids.shape[1])
    known = (ids >= 0) & (ids < vocabulary.size)
    count = predicted.sum(axis=1)[:, None]
    ascending = np.diff(at, axis=1) > 0
    special = (whole == vocabulary.cls_id) | (whole == vocabulary.sep_id)
    on_special = np.take_along_axis(special, np.clip(at, 0, ids.shape[1] - 1), 1)
    broken = {
        "an id is outside the vocabulary": ~known,
        "the first token is not [CLS]": whole[:, :1] != vocabulary.cls_id,
        "the last token is not [SEP]": np.take_along_axis(whole, np.maximum(length - 1, 0), 1)
        != vocabulary.sep_id,
        "input_mask is not ones, then zeros": real != (place < length),
        "padding is not 0": ~real & ((ids != 0) | (columns["segment_ids"] != 0)),
        "segment_ids are not zeros, then ones": np.where(
            real[:, 1:], np.diff(columns["segment_ids"], axis=1), 0
        )
        < 0,
        "masked_lm_weights are not ones, then zeros": predicted != (np.arange(at.shape[1]) < count),
        "masked_lm_weights hold another number": (weights != 0) & (weights != 1),
        "a prediction is behind the last token": predicted & ((at < 0) | (at >= length)),
        "masked_lm_positions do not ascend": predicted[:, 1:] & ~ascending,
        "[CLS] or [SEP] is to be predicted": predicted & on_special,
        "padding of the predictions is not 0": ~predicted
        & ((at != 0) | (columns["masked_lm_ids"] != 0)),
        "next_sentence_labels is not 0 or 1": (labels != 0) & (labels != 1),
    }
    return {rule: int(np.any(where, axis=1).sum()) for rule, where in broken.items()}


def shares(report: Mapping[str, Any], expected: Mapping[str, float]) -> Iterator[str]:
    """One line for each share that is compared: measured, expected, and how far off.

    Args:
        report: From `Stats.report`.
        expected: For each name in the report, the probability it should have.
    """
    for name, probability in expected.items():
        trials = report["predictions"]
        error = max((probability * (1 - probability) / max(trials, 1)) ** 0.5, 1e-12)
        off = (report[name] - probability) / error
        verdict = "as expected" if abs(off) < 5 else "NOT as expected"
        yield (f"{name}: {report[name]:.4f}, expected {probability:.4f} +- {error:.4f}: {verdict}")


def as_text(
    columns: Mapping[str, np.ndarray], number: int, tokens: Sequence[str], mask_id: int
) -> str:
    """A record as text, the predictions in place.

    `[MASK=went]` is masked, `went[=store]` was replaced and is to be "store", `went[=]` stayed.

    Args:
        columns: The columns of a batch.
        number: Which record of it.
        tokens: The vocabulary.
        mask_id: Id of [MASK].
    """
    ids = columns["input_ids"][number]
    shown = [tokens[i] if 0 <= i < len(tokens) else f"<{i}>" for i in ids]
    predictions = zip(
        columns["masked_lm_positions"][number],
        columns["masked_lm_ids"][number],
        columns["masked_lm_weights"][number],
        strict=True,
    )
    for position, label, weight in predictions:
        if weight > 0:
            now, was = ids[position], tokens[label]
            kept = "[=]" if now == label else f"[={was}]"
            shown[position] = f"[MASK={was}]" if now == mask_id else shown[position] + kept
    length = int(columns["input_mask"][number].sum())
    label = "random" if columns["next_sentence_labels"][number, 0] else "next"
    return f"{' '.join(shown[:length])}\n  B is {label}; {length} tokens"
