"""Counts [UNK] in tokenized text, and words the warning about a large share.

Text in another casing or language than its vocabulary becomes mostly [UNK], and a model
then trains and predicts without an error.
"""

from collections.abc import Collection
from typing import Any

import numpy as np

UNKNOWN_LIMIT = 0.02
_REMEDY = (
    "Check that do_lower_case and vocab_file are those of the model, and that the "
    "vocabulary covers the language of the text"
)


def count_unknown(
    ids: Any, unk_id: int, special_ids: Collection[int]
) -> tuple[int, int]:
    """Counts [UNK] in ids of text.

    Args:
        ids: Integers of any shape.
        unk_id: Id of [UNK].
        special_ids: Ids that are not text: [PAD], [CLS] and [SEP].

    Returns:
        The number of [UNK], and the number of ids that are not in `special_ids`.
    """
    ids = np.asarray(ids)
    return int((ids == unk_id).sum()), int((~np.isin(ids, list(special_ids))).sum())


def unknown_warning(
    unknown: int, total: int, what: str, remedy: str = _REMEDY
) -> str | None:
    """Returns one line if more than 2 % of the tokens are [UNK], else None.

    Args:
        unknown: The number of [UNK].
        total: The number of tokens, without [PAD], [CLS] and [SEP].
        what: The counted tokens in the plural, such as "tokens of dev.tsv".
        remedy: What the user should check, without a full stop.
    """
    if unknown <= UNKNOWN_LIMIT * total:
        return None
    return (
        f"{unknown:,} of {total:,} {what} ({unknown / total:.1%}) are [UNK], which is "
        f"above {UNKNOWN_LIMIT:.0%}. {remedy}."
    )
