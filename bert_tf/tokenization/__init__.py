"""Converts text to ids in a TensorFlow graph, as the released FullTokenizer does.

Read the modules in this order: `vocabulary` (vocab.txt and its checks, the casing of
released models, the share of [UNK] in a text), `tensorflow_tokenizer` (`BertTokenizer`,
the interface for users), `input_checks` (Python values to tensors), `basic_tokenizer`
(text to words, and offsets in the original text), `rare_characters` (rules that depend
on more than one character), `unicode_tables` (the rules for each character, frozen at
Unicode 14.0; without TensorFlow), `special_tokens` ([MASK] in text, on request),
`wordpiece` (words to ids), `packing` ([CLS] A [SEP] B [SEP]).

`BasicTokenizer` and `BertTokenizer` import TensorFlow and are imported when they are
first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from bert_tf.tokenization.vocabulary import (
    check_size,
    load_vocabulary,
    released_casing,
    validate_case_matches_checkpoint,
)

if TYPE_CHECKING:
    from bert_tf.tokenization.basic_tokenizer import BasicTokenizer
    from bert_tf.tokenization.tensorflow_tokenizer import BertTokenizer

_MODULES = {
    "BasicTokenizer": "basic_tokenizer",
    "BertTokenizer": "tensorflow_tokenizer",
}

__all__ = [
    "BasicTokenizer",
    "BertTokenizer",
    "check_size",
    "load_vocabulary",
    "released_casing",
    "validate_case_matches_checkpoint",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
