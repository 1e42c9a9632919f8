"""Finds, from the name of a folder, whether a released model needs lower-cased text."""

import re

from bert_tf.errors import InputError

_RELEASED = re.compile(
    r"(?:^|/)(?:wwm_)?(uncased|cased|multilingual|multi_cased|chinese)_L-"
)
_LOWER_CASED = ("uncased", "multilingual", "chinese")


def released_casing(path: str) -> bool | None:
    """Returns whether the released model that a path names needs lower-cased text.

    Args:
        path: Path or name of a folder or file, such as `uncased_L-12_H-768_A-12` or
            `uncased_L-12_H-768_A-12.zip`. The start of a folder or file name identifies
            a released model, including the smaller and the whole-word-masking models.

    Returns:
        True for lower-cased text, False for cased text, None if the path names no
        released model.

    Source: google-research/bert README;
    `tokenization.validate_case_matches_checkpoint`.
    """
    match = _RELEASED.search(path)
    return match[1] in _LOWER_CASED if match else None


def validate_case_matches_checkpoint(
    do_lower_case: bool, init_checkpoint: str | None
) -> None:
    """Checks `do_lower_case` against the released model that the path of a checkpoint names.

    Args:
        do_lower_case: Whether text will be lower-cased.
        init_checkpoint: Path of a checkpoint such as
            `uncased_L-12_H-768_A-12/bert_model.ckpt`. None and paths that name no
            released model are accepted.

    Raises:
        InputError: `do_lower_case` does not match the casing of the released model.

    Source: google-research/bert `tokenization.validate_case_matches_checkpoint`.
    """
    released = released_casing(init_checkpoint or "")
    if released not in (None, do_lower_case):
        raise InputError(
            f"do_lower_case is {do_lower_case}, but {init_checkpoint} is a model for "
            f"{'lower-cased' if released else 'cased'} text. Set do_lower_case to "
            f"{released}."
        )
