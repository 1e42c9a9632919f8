"""Tokenizers of bert-tf, each with the reference for the same vocabulary and casing."""

import functools
import unicodedata

import pytest
from reference import tokenizer as reference

from bert_tf.tokenization import BertTokenizer

PAD, UNK, CLS, SEP, MASK = range(5)
needs_unicode_14 = pytest.mark.skipif(
    unicodedata.unidata_version != "14.0.0",
    reason="the reference uses Python's Unicode version; the tables are of 14.0",
)
both_casings = pytest.mark.parametrize(
    "do_lower_case", [True, False], ids=["uncased", "cased"]
)


@functools.cache
def pair(tokens, do_lower_case):
    """Returns a tokenizer and its reference; `tokens` is a tuple."""
    tokens = list(tokens)
    return (
        BertTokenizer(tokens, do_lower_case),
        reference.Tokenizer(tokens, do_lower_case),
    )
