"""Records of multiple choice, compared with a plain transcription of the rules."""

import random

import pytest
from golden_checkpoints import assert_same_arrays
from reference import multiple_choice as reference
from small_vocabulary import PLAIN, TOKENIZER, random_text
from squad_data import INPUTS

from bert_tf.tasks.choice.choice_examples import ChoiceExample
from bert_tf.tasks.choice.choice_task import ChoiceTask

CHOICES = 7


def random_examples():
    """Returns examples with 2 to 7 choices; some texts have no tokens."""
    rng, examples = random.Random(0), []
    for _ in range(200):
        choices = tuple(random_text(rng) for _ in range(rng.randint(2, CHOICES)))
        label = rng.choice([None, len(choices) - 1])
        examples.append(ChoiceExample(random_text(rng), choices, label))
    return examples


@pytest.mark.parametrize("length", [3, 4, 5, 12, 40])
def test_records_equal_the_transcription(length):
    examples, plain = random_examples(), PLAIN.tokenize
    rows = [
        reference.record(each.context, each.choices, plain, length, CHOICES, (2, 3, 0))
        for each in examples
    ]
    *inputs, truncated = zip(*rows, strict=True)
    sizes = [len(each.choices) for each in examples]
    expected = dict(zip(INPUTS, inputs, strict=True))
    expected |= {
        "num_choices": sizes,
        "label_ids": [each.label or 0 for each in examples],
    }

    encoded = ChoiceTask(CHOICES).encode(examples, TOKENIZER, length)
    assert_same_arrays(encoded.columns, expected)
    assert set(sizes) == set(range(2, 8))
    assert encoded.records_per_example is None

    empty = sum(not all(map(plain, (e.context, *e.choices))) for e in examples)
    assert encoded.counts == {"truncated": sum(truncated), "with an empty text": empty}
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
