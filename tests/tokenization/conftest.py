"""Fixtures of the tokenizer tests."""

import pytest
from reference import tokenizer as reference

from bert_tf.tokenization import BertTokenizer


@pytest.fixture(
    scope="module",
    params=[
        ("bert-base-uncased", True), ("bert-base-cased", False),
        ("bert-base-multilingual-cased", False), ("bert-base-chinese", True),
    ],
    ids=lambda param: param[0],
)  # fmt: skip
def released_vocabulary(request, test_data):
    name, do_lower_case = request.param
    tokenizer = BertTokenizer(
        str(test_data / f"data/vocab/{name}-vocab.txt"), do_lower_case
    )
    return tokenizer, reference.Tokenizer(tokenizer.vocabulary, do_lower_case)
