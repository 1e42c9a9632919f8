"""Records of multiple choice, compared with a plain transcription of the rules."""

import random

import numpy as np
import pytest
from reference import multiple_choice as reference
from small_vocabulary import PLAIN, TOKENIZER, random_text

from bert_tf.tasks.choice.choice_examples import ChoiceExample
from bert_tf.tasks.choice.choice_task import ChoiceTask

INPUTS = "input_ids", "input_mask", "segment_ids"
CHOICES = 7


def random_examples(count, seed=0):
    """Returns examples with 2 to 7 choices; some texts have no tokens."""
    rng, examples = random.Random(seed), []
    for _ in range(count):
        choices = tuple(random_text(rng) for _ in range(rng.randint(2, CHOICES)))
        label = rng.choice([None, len(choices) - 1])
        examples.append(ChoiceExample(random_text(rng), choices, label))
    return examples


@pytest.mark.parametrize("length", [3, 4, 5, 12, 40])
def test_records_equal_the_transcription(length):
    examples = random_examples(200)
    plain = PLAIN.tokenize
    expected = [
        reference.record(each.context, each.choices, plain, length, CHOICES, (2, 3, 0))
        for each in examples
    ]
    encoded = ChoiceTask(CHOICES).encode(examples, TOKENIZER, length)
    *columns, truncated = zip(*expected, strict=True)
    for name, values in zip(INPUTS, columns, strict=True):
        assert encoded.columns[name].shape == (200, CHOICES, length)
        np.testing.assert_array_equal(encoded.columns[name], values)
    sizes = [len(each.choices) for each in examples]
    assert encoded.columns["num_choices"].tolist() == sizes and set(sizes) == set(
        range(2, 8)
    )
    assert encoded.columns["label_ids"].tolist() == [
        each.label or 0 for each in examples
    ]
    empty = sum(any(not plain(t) for t in (e.context, *e.choices)) for e in examples)
    assert encoded.counts == {"truncated": sum(truncated), "with an empty text": empty}
    assert encoded.records_per_example is None
    assert 0 < empty < 200


def test_a_literal_record():
    example = ChoiceExample("The cats", ("sat.", "The cats sat, unable!"), 1)
    columns = ChoiceTask(3).encode([example], TOKENIZER, 8).columns
    assert columns["input_ids"].tolist() == [
        [
            [2, 5, 6, 8, 3, 7, 12, 3],  # [CLS] the cat ##s [SEP] sat . [SEP]
            # From the end of the longer text, then from the choice.
            [2, 5, 6, 8, 3, 5, 6, 3],
            [0] * 8,
        ]
    ]
    assert columns["segment_ids"].tolist() == [[[0] * 5 + [1] * 3] * 2 + [[0] * 8]]
    assert columns["input_mask"].tolist() == [[[1] * 8] * 2 + [[0] * 8]]
