"""`MaskingConfig`: the settings that decide which tokens are predicted."""

import dataclasses

from bert_tf.config_fields import documented, option
from bert_tf.errors import InputError, check_between, store_plain_values

_MAX_COUNT = 99_999


@documented
@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    """Settings: which tokens are predicted, and what replaces them in the input.

    Raises:
        InputError: A value is outside its range. The message contains the name and the
            value.

    Source: google-research/bert `create_pretraining_data.py`, its flags and defaults.
    """

    do_whole_word_mask: bool = option(
        False, "Whether to mask either all tokens of a word or none of them."
    )
    max_predictions_per_seq: int = option(
        20, "Largest number of masked tokens in a sequence, P."
    )
    masked_lm_prob: float = option(
        0.15,
        "Share of the tokens to mask, in [0, 1]. The model predicts the masked tokens.",
    )
    mask_token_prob: float = option(
        0.8, "Share of the masked tokens that are replaced by [MASK], in [0, 1]."
    )
    random_token_prob: float = option(
        0.1,
        "Share of the masked tokens that are replaced by a random token, in [0, 1]. "
        "The remaining masked tokens are not changed.",
    )
    max_ngram_size: int = option(
        1,
        "Largest number of adjacent words that are masked as a unit. With 1, each "
        "word is masked on its own, as in google-research/bert.",
    )
    round_half_up: bool = option(
        False,
        "Whether to round up a number of masked tokens that ends in .5, for example "
        "4.5 to 5. If false, such a number is rounded to the nearest even number, "
        "for example 4.5 to 4, as google-research/bert does in Python 3.",
    )
    keep_words_apart_at_sep: bool = option(
        False,
        "With do_whole_word_mask: whether the first token of text B always starts a "
        'new word. If false, a "##" token at the start of B belongs to the last word '
        "of text A, as in google-research/bert.",
    )
    replace_whole_words: bool = option(
        False,
        "With do_whole_word_mask: whether one draw per word decides if the tokens of "
        "the word become [MASK], become random tokens or do not change. If false, "
        "there is one draw per token, as in google-research/bert.",
    )

    def __post_init__(self) -> None:
        store_plain_values(self)
        check_between(1, _MAX_COUNT, self, "max_predictions_per_seq", "max_ngram_size")
        check_between(
            0, 1, self, "masked_lm_prob", "mask_token_prob", "random_token_prob"
        )

        # Values that exclude each other.
        if self.max_ngram_size > self.max_predictions_per_seq:
            raise InputError(
                "max_ngram_size must not exceed max_predictions_per_seq, which is "
                f"{self.max_predictions_per_seq}. Received: {self.max_ngram_size}."
            )
        if self.mask_token_prob + self.random_token_prob > 1 + 1e-9:
            raise InputError(
                "mask_token_prob and random_token_prob must not sum to more than 1. "
                f"Received: {self.mask_token_prob} and {self.random_token_prob}."
            )
        if not self.masked_lm_prob and getattr(self, "objective", "") != "causal":
            raise InputError(
                "masked_lm_prob must be above 0. Received: 0. For no masks, give "
                "objective=causal."
            )

        self.check_effect(
            self.do_whole_word_mask,
            "do_whole_word_mask",
            "keep_words_apart_at_sep",
            "replace_whole_words",
        )

    @property
    def masked_share(self) -> float:
        """Share of the tokens to mask; with 0, no token is masked."""
        return self.masked_lm_prob

    def warning(self, max_seq_length: int) -> str:
        """Returns a warning if `max_predictions_per_seq` is too low for `masked_share`, else ""."""
        limit = self.max_predictions_per_seq
        masks = round(max_seq_length * self.masked_share)
        if limit >= 0.9 * masks:
            return ""
        return (
            f"warning: --max_predictions_per_seq={limit} masks "
            f"{limit / max_seq_length:.1%} of {max_seq_length} tokens; "
            f"--max_predictions_per_seq={masks} masks {self.masked_share:.1%}."
        )

    def check_effect(self, has_effect: bool, needed: str, *names: str) -> None:
        """Raises `InputError` if settings without an effect differ from their defaults.

        Args:
            has_effect: Whether the settings have an effect.
            needed: What the settings need to have an effect, for the message.
            *names: The names of the settings.
        """
        changed = [
            name for name in names if getattr(self, name) != getattr(type(self), name)
        ]
        if changed and not has_effect:
            raise InputError(
                f"{changed[0]} has no effect without {needed}. Leave it out."
            )
