"""Checks the rules that each pretraining record must obey, and formats records as text.

The records that google-research/bert creates obey these rules. Records that other
programs create must obey the same rules.

Letters: B batch, S sequence length, P predictions per sequence.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from bert_tf.masking.algorithm import Vocabulary
from bert_tf.record_creation.stats import unmasked_ids

_LISTED_NAMES = 5


class BrokenRules(dict[str, tuple[int, list[str]]]):
    """Maps a rule to the number of records or files that break it, and to five of their names."""

    def add(self, rule: str, names: list[str]) -> None:
        """Adds records or files, by name, that break a rule.

        `rule` describes the violation, such as "the first token is not [CLS]".
        """
        count, first = self.get(rule, (0, []))
        self[rule] = count + len(names), (first + names)[:_LISTED_NAMES]

    def lines(self) -> Iterator[str]:
        """Yields one line of the report for each broken rule."""
        for rule, (count, first) in self.items():
            if count:
                more = ", ..." if count > _LISTED_NAMES else ""
                yield f"{rule}, {count:,} found: {', '.join(first)}{more}"


def broken_rules(
    columns: Mapping[str, np.ndarray], vocabulary: Vocabulary
) -> dict[str, np.ndarray]:
    """Returns, for each rule, which records of a batch break it: bool [B].

    The keys describe the violations. The columns are those of
    `record_format.PRETRAINING`, but may contain any values.
    """
    ids = columns["input_ids"]
    segments = columns["segment_ids"]
    mask = columns["input_mask"]
    positions = columns["masked_lm_positions"]
    weights = columns["masked_lm_weights"]
    labels = columns["masked_lm_ids"]
    next_label = columns["next_sentence_labels"]
    size = vocabulary.size
    is_token = mask > 0
    is_prediction = weights > 0

    # int64 [B, 1]; the arrays below are [B, S] for tokens and [B, P] for predictions.
    length = is_token.sum(axis=1)[:, None]
    leading = np.arange(weights.shape[1]) < is_prediction.sum(axis=1)[:, None]

    # Predictions at positions outside the text are ignored when the masking is undone.
    is_valid = is_prediction & (positions >= 0) & (positions < length)
    valid_positions = np.where(is_valid, positions, 0)
    unmasked = unmasked_ids(ids, valid_positions, labels, is_valid)
    is_special = (unmasked == vocabulary.cls_id) | (unmasked == vocabulary.sep_id)
    predicts_special = np.take_along_axis(is_special, valid_positions, 1)

    ascends = np.diff(positions, axis=1) > 0
    last_token = np.take_along_axis(unmasked, np.maximum(length - 1, 0), 1)
    starts_b = np.diff(segments, axis=1) > 0
    in_b = np.maximum.accumulate(segments > 0, axis=1)
    expected_specials = 2 + starts_b.any(axis=1)[:, None]

    broken = {
        "an id in input_ids is outside the vocabulary": (ids < 0) | (ids >= size),
        "an id in masked_lm_ids is outside the vocabulary": (labels < 0)
        | (labels >= size),
        "the first token is not [CLS]": unmasked[:, :1] != vocabulary.cls_id,
        "the last token is not [SEP]": last_token != vocabulary.sep_id,
        "[CLS] or [SEP] is inside A or B": is_special.sum(axis=1)[:, None]
        > expected_specials,
        "input_mask is not ones, then zeros": mask
        != (np.arange(ids.shape[1]) < length),
        "padding is not 0": ~is_token & ((ids != 0) | (segments != 0)),
        "segment_ids are not zeros, then ones": (is_token & (segments != in_b))
        | in_b[:, :1],
        "segment 1 does not start after [SEP]": starts_b
        & (unmasked[:, :-1] != vocabulary.sep_id),
        "masked_lm_weights are not ones, then zeros": is_prediction != leading,
        "masked_lm_weights hold a number other than 0 and 1": (weights != 0)
        & (weights != 1),
        "masked_lm_positions hold a position outside the text": is_prediction
        & ~is_valid,
        "masked_lm_positions are not ascending": is_prediction[:, 1:] & ~ascends,
        "[CLS] or [SEP] is to be predicted": is_valid & predicts_special,
        "padding of the predictions is not 0": ~is_prediction
        & ((positions | labels) != 0),
        "next_sentence_labels is not 0 or 1": (next_label != 0) & (next_label != 1),
    }
    return {rule: np.any(where, axis=1) for rule, where in broken.items()}


def format_record(
    columns: Mapping[str, np.ndarray], row: int, tokens: Sequence[str], mask_id: int
) -> str:
    """Returns a record of a batch as text, and marks the predictions in the text.

    A prediction is shown as `[MASK=went]` if [MASK] replaces "went", as `went[=store]`
    if "went" replaces "store", and as `went[=]` if "went" is not replaced. An id
    outside the vocabulary, such as 99999, is shown as `<99999>`.
    """
    ids = columns["input_ids"][row]

    def token(index: int) -> str:
        return tokens[index] if 0 <= index < len(tokens) else f"<{index}>"

    shown = [token(index) for index in ids]
    names = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
    for position, label, weight in zip(
        *(columns[name][row] for name in names), strict=True
    ):
        if weight > 0 and 0 <= position < len(shown):
            if ids[position] == mask_id:
                shown[position] = f"[MASK={token(label)}]"
            else:
                shown[position] += (
                    "[=]" if ids[position] == label else f"[={token(label)}]"
                )
    length = int((columns["input_mask"][row] > 0).sum())
    label = "random" if columns["next_sentence_labels"][row, 0] else "next"
    return f"{' '.join(shown[:length])}\n  B is {label}; {length} tokens"
