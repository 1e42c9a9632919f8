"""A few masked sentences with what the model makes of them, to be read by a person."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_BEST = 3  # predictions shown for each mask
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_SPECIAL_TO_MARKDOWN = "\\`*_{}[]<>()#+-!|~"


def masked_sentences(
    model: Any, batch: Mapping[str, Any], vocabulary: Sequence[str], examples: int = 3
) -> str:
    """Predicts the masks of the first examples of a batch.

    Args:
        model: A `BertPretrainer`.
        batch: Features of `features.PRETRAINING`.
        vocabulary: The entries by id.
        examples: How many examples to show at most.

    Returns:
        Markdown, as of `as_markdown`.
    """
    few = {name: value[:examples] for name, value in batch.items()}
    return as_markdown(few, model(few, training=False), vocabulary)


def as_markdown(
    batch: Mapping[str, Any], outputs: Mapping[str, Any], vocabulary: Sequence[str]
) -> str:
    """Each example as its text with the predicted places in bold, and a table of predictions.

    Args:
        batch: Features of `features.PRETRAINING`.
        outputs: Of a `BertPretrainer`: masked_lm_logits [B, P, V] and, if the model has that head,
            next_sentence_logits [B, 2].
        vocabulary: The entries by id.

    Returns:
        Markdown.
    """
    columns = {name: np.asarray(value) for name, value in batch.items()}
    masked = _softmax(outputs["masked_lm_logits"])
    following = outputs.get("next_sentence_logits")
    texts = []
    for row in range(len(masked)):
        example = {name: values[row] for name, values in columns.items()}
        texts.append(_text(example, vocabulary))
        texts.append(_table(example, masked[row], vocabulary))
        if following is not None:
            label = int(example["next_sentence_labels"][0])
            texts.append(_following(label, _softmax(following)[row]))
    return "\n\n".join(texts) + "\n"


def _text(example: Mapping[str, Any], vocabulary: Sequence[str]) -> str:
    """The pieces joined to words, [SEP] as a stroke, and each predicted place in bold."""
    count = int(np.sum(example["masked_lm_weights"] > 0))
    numbers = {int(at): n for n, at in enumerate(example["masked_lm_positions"][:count], 1)}
    text = ""
    for at, index in enumerate(example["input_ids"][: int(np.sum(example["input_mask"]))]):
        token = vocabulary[int(index)]
        if at in numbers:
            token = f"**{_plain(token)}**{str(numbers[at]).translate(_SUPERSCRIPTS)}"
            text += f" {token}"
        elif token.startswith("##") and len(token) > 2:
            text += _plain(token[2:])
        elif token == "[SEP]":
            text += " /"
        elif token != "[CLS]":
            text += f" {_plain(token)}"
    return text.removesuffix(" /").strip()


def _table(example: Mapping[str, Any], masked: np.ndarray, vocabulary: Sequence[str]) -> str:
    """A row for each predicted place: number, true token, the likeliest; in bold if it is it."""
    lines = ["| | true | predicted |", "|---|---|---|"]
    count = int(np.sum(example["masked_lm_weights"] > 0))
    for number, (index, shares) in enumerate(
        zip(example["masked_lm_ids"][:count], masked[:count], strict=True), 1
    ):
        best = np.argsort(-shares, kind="stable")[:_BEST]
        shown = (f"{_plain(vocabulary[int(i)])} {shares[i]:.2f}" for i in best)
        cells = [f"**{cell}**" if i == index else cell for i, cell in zip(best, shown, strict=True)]
        lines.append(f"| {number} | {_plain(vocabulary[int(index)])} | {' · '.join(cells)} |")
    return "\n".join(lines)


def _following(label: int, shares: np.ndarray) -> str:
    what = ("follows", "is from elsewhere")
    guess = int(np.argmax(shares))
    predicted = f"{what[guess]} ({shares[guess]:.2f})"
    return (
        f"The second part {what[label]}; predicted: "
        f"{f'**{predicted}**' if guess == label else predicted}."
    )


def _softmax(logits: Any) -> np.ndarray:
    values = np.asarray(logits, np.float64)
    shares = np.exp(values - values.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def _plain(token: str) -> str:
    """The token with everything escaped that Markdown or HTML would take for its own."""
    return "".join(f"\\{c}" if c in _SPECIAL_TO_MARKDOWN else c for c in token).replace(
        "&", "&amp;"
    )
