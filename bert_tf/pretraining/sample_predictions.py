"""Predictions for the masked tokens of a few examples, formatted as Markdown."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.training.step.objective import Tensors

_EXAMPLES = 3
_PREDICTIONS_PER_MASK = 3
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_SPECIAL_TO_MARKDOWN = "\\`*_{}[]<>()#+-!|~"


def masked_sentences(model: Any, batch: Tensors, vocabulary: Sequence[str]) -> str:
    """Predicts the masked tokens of the first examples of a batch; returns Markdown.

    `model` is a `BertPretrainer`. The index of a vocabulary entry is its id.
    """
    few = {name: np.asarray(value[:_EXAMPLES]) for name, value in batch.items()}
    return as_markdown(few, model(few, training=False), vocabulary)


def as_markdown(batch: Tensors, outputs: Tensors, vocabulary: Sequence[str]) -> str:
    """Formats each example: its text with masked tokens in bold, and a table.

    Args:
        batch: The features of `record_format.PRETRAINING`.
        outputs: Outputs of a `BertPretrainer`: masked_lm_logits [B, P, V] and, if the
            model has a next-sentence head, next_sentence_logits [B, 2].
        vocabulary: The vocabulary entries; the index of an entry is its id.
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
            texts.append(_next_sentence(label, _softmax(following[row])))
    return "\n\n".join(texts) + "\n"


def _text(example: Tensors, vocabulary: Sequence[str]) -> str:
    """Joins tokens to a text: [SEP] becomes " / ", masked tokens are bold and numbered."""
    count = int(np.sum(example["masked_lm_weights"] > 0))
    numbers = {
        int(at): n for n, at in enumerate(example["masked_lm_positions"][:count], 1)
    }

    text = ""
    for at, index in enumerate(
        example["input_ids"][: int(np.sum(example["input_mask"]))]
    ):
        token = vocabulary[int(index)]
        if at in numbers:
            token = f"**{_escape(token)}**{str(numbers[at]).translate(_SUPERSCRIPTS)}"
            text += f" {token}"
        elif token.startswith("##") and len(token) > 2:
            text += _escape(token[2:])
        elif token == "[SEP]":
            text += " /"
        elif token != "[CLS]":
            text += f" {_escape(token)}"
    return text.removesuffix(" /").strip()


def _table(example: Tensors, masked: np.ndarray, vocabulary: Sequence[str]) -> str:
    """Returns a table with a row for each masked position; correct predictions are bold."""
    lines = ["| | true | predicted |", "|---|---|---|"]
    count = int(np.sum(example["masked_lm_weights"] > 0))

    # The most probable tokens, and their probabilities.
    for number, (index, shares) in enumerate(
        zip(example["masked_lm_ids"][:count], masked[:count], strict=True), 1
    ):
        best = np.argsort(-shares, kind="stable")[:_PREDICTIONS_PER_MASK]
        shown = (f"{_escape(vocabulary[int(i)])} {shares[i]:.2f}" for i in best)
        cells = [
            f"**{cell}**" if i == index else cell
            for i, cell in zip(best, shown, strict=True)
        ]
        lines.append(
            f"| {number} | {_escape(vocabulary[int(index)])} | {' · '.join(cells)} |"
        )
    return "\n".join(lines)


def _next_sentence(label: int, shares: np.ndarray) -> str:
    what = ("follows", "is from elsewhere")
    guess = int(np.argmax(shares))
    predicted = f"{what[guess]} ({shares[guess]:.2f})"
    return (
        f"The second part {what[label]}; predicted: "
        f"{f'**{predicted}**' if guess == label else predicted}."
    )


def _softmax(logits: Any) -> np.ndarray:
    return tf.nn.softmax(np.asarray(logits, np.float64)).numpy()


def _escape(token: str) -> str:
    """Escapes the characters of a token that are special in Markdown or HTML."""
    return "".join(f"\\{c}" if c in _SPECIAL_TO_MARKDOWN else c for c in token).replace(
        "&", "&amp;"
    )
