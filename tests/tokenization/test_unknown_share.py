import numpy as np

from bert_tf.tokenization.vocabulary import count_unknown, unknown_warning


def test_padding_and_special_tokens_are_not_counted():
    ids = np.array([[101, 100, 7, 102, 0, 0], [101, 7, 7, 102, 0, 0]])
    assert count_unknown(ids, 100, (0, 101, 102)) == (1, 4)
    assert count_unknown([], 100, (0, 101, 102)) == (0, 0)


def test_the_warning_starts_above_two_percent():
    assert unknown_warning(2, 100, "tokens of dev.tsv") is None
    assert unknown_warning(0, 0, "tokens of dev.tsv") is None
    line = unknown_warning(1030, 2000, "tokens of dev.tsv")
    assert line.startswith("1,030 of 2,000 tokens of dev.tsv (51.5%) are [UNK]")
    assert "do_lower_case" in line and "\n" not in line
