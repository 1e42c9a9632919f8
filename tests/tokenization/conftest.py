"""Fixtures of the tokenizer tests."""

import pytest
from tokenizer_pairs import pair


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
    text = (test_data / f"data/vocab/{name}-vocab.txt").read_text("utf-8")
    return pair(tuple(text.removesuffix("\n").split("\n")), do_lower_case)
