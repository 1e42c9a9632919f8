"""Finds the texts that an exported model truncates."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.export.layout import EXTRA, REPORT_FILE
from bert_tf.storage import files, json_files
from bert_tf.storage.weights import VOCABULARY_FILE
from bert_tf.tasks.classification.long_texts import LongTexts
from bert_tf.tasks.task import settings_from
from bert_tf.tokenization import BertTokenizer

# Models with one of these outputs read long texts in windows.
_WINDOWS = {"answer", "tags"}
# Models with one of these outputs have special tokens in texts, such as [MASK].
_PRETRAINED = {"num_masks", "num_tokens", "is_next"}


def reads_starts_only(facts: Mapping[str, Any], outputs: Collection[str]) -> bool:
    """Returns whether a model truncates long texts; `outputs` are names of its outputs."""
    is_classifier = (_PRETRAINED | {"embedding"}).isdisjoint(outputs)
    in_windows = is_classifier and settings_from(LongTexts, facts).in_windows
    return not in_windows and _WINDOWS.isdisjoint(outputs)


def limit_of_saved_model(
    folder: str, facts: Mapping[str, Any], outputs: Collection[str]
) -> tuple[int | None, Callable[[], BertTokenizer]]:
    """Returns the largest sequence length, and a function that builds the tokenizer.

    The length is None if the folder has no report of the export.
    """

    def make_tokenizer() -> BertTokenizer:
        path = os.path.join(folder, EXTRA, VOCABULARY_FILE)
        has_masks = not _PRETRAINED.isdisjoint(outputs)
        return BertTokenizer(path, facts["do_lower_case"], has_masks)

    path = os.path.join(folder, REPORT_FILE)
    report = json_files.read(path, own=True) if files.exists(path) else {}
    return report.get("max_seq_length"), make_tokenizer


def num_tokens(columns: Sequence[Sequence[Any]], tokenizer: BertTokenizer) -> Any:
    """Returns the number of tokens of the longest sequence of each row: int [N].

    Special tokens are not counted. For each input of the model, `columns` has N texts
    as UTF-8, or N lists of texts. Each text of a list is in a sequence of its own.
    """
    total: np.ndarray = np.zeros(len(columns[0]), int)
    for column in columns:
        lists = [[each] if isinstance(each, bytes) else each for each in column]
        row: np.ndarray = np.repeat(np.arange(len(lists)), list(map(len, lists)))
        counts = tokenizer.tokenize([text for each in lists for text in each])
        longest = np.zeros_like(total)
        np.maximum.at(longest, row, counts.row_lengths())
        total += longest
    return total
