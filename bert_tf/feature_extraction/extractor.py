"""`FeatureExtractor`: the hidden states of lines of text, for tokens or words."""

import dataclasses
import itertools
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.errors import InputError
from bert_tf.feature_extraction.extraction_config import ExtractionConfig
from bert_tf.modeling import BertEncoder
from bert_tf.tokenization import BertTokenizer

_LOGGER = logging.getLogger(__name__)
_PAIR = re.compile(r"^(.*) \|\|\| (.*)$")


@dataclasses.dataclass(frozen=True)
class LineFeatures:
    """The features of one line.

    Attributes:
        tokens: T tokens or words, with [CLS] and [SEP].
        values: float32. With K layers of H values, the shape is [K, T, H] for `combine`
            "none", [1, T, K*H] for "concat", and [1, T, H] for "sum".
    """

    tokens: list[str]
    values: np.ndarray


class FeatureExtractor:
    """Computes features of lines of text, batch by batch.

    A line `A ||| B` is a pair of texts. Each batch is padded only to its longest line.
    The number of lines that were truncated is logged as a warning.
    """

    def __init__(
        self, encoder: BertEncoder, tokenizer: BertTokenizer, config: ExtractionConfig
    ) -> None:
        blocks = encoder.config.num_hidden_layers
        for layer in config.layers:
            if not -blocks - 1 <= layer < blocks:
                raise InputError(
                    f"There is no layer {layer} in this model. layers must be from "
                    f"-{blocks} to {blocks - 1}, or -{blocks + 1} for the embeddings."
                )
        encoder.config.check_length(config.max_seq_length)

        self._encoder = encoder
        self._tokenizer = tokenizer
        self._config = config
        spec = tf.TensorSpec([None, None], tf.int32)
        self._compute = tf.function(
            self._hidden_states, input_signature=[spec] * 3, autograph=False
        )

    def _hidden_states(self, ids: Any, mask: Any, segments: Any) -> Any:
        """Returns the hidden states of the K layers to extract, float32 [B, K, S, H]."""
        outputs = self._encoder(
            {"input_ids": ids, "input_mask": mask, "segment_ids": segments}
        )
        states = [outputs["embedding_output"], *outputs["encoder_outputs"]]  # [B, S, H]
        selected = [states[i + 1] if i >= 0 else states[i] for i in self._config.layers]
        return tf.cast(tf.stack(selected, axis=1), tf.float32)

    def __call__(self, lines: Iterable[str]) -> Iterator[LineFeatures]:
        """Yields the features of each line, in order."""
        self._num_truncated = 0
        lines = iter(lines)
        while batch := list(itertools.islice(lines, self._config.batch_size)):
            yield from self._extract_batch(batch)
        if self._num_truncated:
            _LOGGER.warning(
                "warning: %d lines have more than %d tokens, and no features of the "
                "others. Give a larger max_seq_length, or split them.",
                self._num_truncated,
                self._config.max_seq_length,
            )

    def _extract_batch(self, lines: Sequence[str]) -> list[LineFeatures]:
        """Returns the features of each line; encodes single texts and pairs in separate batches."""
        texts = [
            pair.groups() if (pair := _PAIR.match(s)) else (s,)
            for s in map(str.strip, lines)
        ]
        results: dict[int, LineFeatures] = {}
        for texts_per_line in (1, 2):
            rows = [i for i, parts in enumerate(texts) if len(parts) == texts_per_line]
            if rows:
                results.update(
                    zip(rows, self._extract([texts[i] for i in rows]), strict=True)
                )
        return [results[i] for i in range(len(lines))]

    def _extract(self, texts: Sequence[Sequence[str]]) -> list[LineFeatures]:
        """Returns the features of lines, which are all single texts or all pairs."""
        # The tokens of the first and, of pairs, the second texts: ragged [B, tokens].
        sides = [
            self._tokenizer.tokenize(list(side)) for side in zip(*texts, strict=True)
        ]
        length = self._config.max_seq_length
        special = 1 + len(sides)  # [CLS], and [SEP] after each text
        needed = sum(side.row_lengths().numpy() for side in sides) + special
        self._num_truncated += int(np.sum(needed > length))

        # The hidden states of the lines, [B, K, S, H], and their lengths without
        # padding, [B].
        packed = self._tokenizer.pack(*sides, seq_length=length, trim_to_longest=True)
        lengths = packed["input_mask"].numpy().sum(axis=1)
        inputs = [packed[name] for name in ("input_ids", "input_mask", "segment_ids")]
        states = self._compute(*inputs).numpy()

        # The vectors of each line, [K, T, H].
        vocabulary = self._tokenizer.vocabulary
        with np.errstate(over="ignore", invalid="ignore"):
            results = [
                self._combine([vocabulary[i] for i in ids[:length]], rows[:, :length])
                for ids, length, rows in zip(
                    inputs[0].numpy(), lengths, states, strict=True
                )
            ]
        if not all(np.isfinite(features.values).all() for features in results):
            raise InputError(
                f"The features of {texts[0][0]!r:.60} or a line near it are not "
                "finite: the weights are too large for a trained model. Give another "
                "checkpoint."
            )
        return results

    def _combine(self, tokens: list[str], values: np.ndarray) -> LineFeatures:
        """Applies the settings `unit` and `combine` to the vectors of a line."""
        if self._config.unit == "word":
            tokens, values = average_words(tokens, values)
        if self._config.combine == "sum":
            values = values.sum(axis=0, keepdims=True)
        elif self._config.combine == "concat":
            values = np.concatenate(list(values), axis=-1)[None]
        return LineFeatures(tokens, values)


def average_words(
    tokens: Sequence[str], values: np.ndarray
) -> tuple[list[str], np.ndarray]:
    """Joins tokens into words, and averages the vectors of the tokens of each word.

    A token that starts with ## continues a word. `values` has the shape [K, T, H] for T
    tokens and K vectors of each, and the averages have the shape [K, words, H].
    """
    words: list[str] = []
    starts = []  # the index of the first token of each word
    for index, token in enumerate(tokens):
        if words and token.startswith("##"):
            words[-1] += token[2:]
        else:
            words.append(token)
            starts.append(index)

    sums = np.add.reduceat(values, starts, axis=1)  # [K, words, H]
    lengths = np.subtract([*starts[1:], len(tokens)], starts)[:, None]  # [words, 1]
    return words, sums / lengths.astype(values.dtype)
