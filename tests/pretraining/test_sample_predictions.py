"""The Markdown report of predictions for masked tokens, compared with literal text."""

import numpy as np
from tiny_bert import small_config

from bert_tf.modeling import BertPretrainer, variables_by_name
from bert_tf.pretraining import sample_predictions

VOCABULARY = [
    "[PAD]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "cat",
    "sat",
    "on",
    "mat",
    "##s",
    "dog",
    "|",
    "_x",
]
# Text: [CLS] the cat [MASK] on the mat ##s [SEP] dog | _x [SEP] [PAD]. "dog" is a
# random token in place of a second "cat".
BATCH = {
    "input_ids": [[1, 4, 5, 3, 7, 4, 8, 9, 2, 10, 11, 12, 2, 0]],
    "input_mask": [[1] * 13 + [0]],
    "segment_ids": [[0] * 9 + [1] * 4 + [0]],
    "masked_lm_positions": [[3, 9, 0]],
    "masked_lm_ids": [[6, 5, 0]],
    "masked_lm_weights": [[1.0, 1.0, 0.0]],
    "next_sentence_labels": [[1]],
}
BATCH = {name: np.array(value) for name, value in BATCH.items()}


def logits(**shares):
    """Returns logits whose softmax gives the probabilities in `shares`."""
    rest = (1 - sum(shares.values())) / (len(VOCABULARY) - len(shares))
    return [np.log(shares.get(token, rest)) for token in VOCABULARY]


def test_markdown_has_text_table_and_next_sentence():
    masked = [
        [logits(sat=0.8, on=0.1, mat=0.05), logits(dog=0.5, cat=0.3, the=0.1), logits()]
    ]
    following = [[np.log(0.25), np.log(0.75)]]
    outputs = {"masked_lm_logits": masked, "next_sentence_logits": following}
    expected = r"""the cat **\[MASK\]**¹ on the mats / **dog**² \| \_x

| | true | predicted |
|---|---|---|
| 1 | sat | **sat 0.80** · on 0.10 · mat 0.05 |
| 2 | cat | dog 0.50 · **cat 0.30** · the 0.10 |

The second part is from elsewhere; predicted: **is from elsewhere (0.75)**.
"""
    assert sample_predictions.as_markdown(BATCH, outputs, VOCABULARY) == expected


def test_a_wrong_next_sentence_prediction_is_not_bold():
    outputs = {
        "masked_lm_logits": np.zeros((1, 3, 13)),
        "next_sentence_logits": [[0.0, -20.0]],
    }
    last = sample_predictions.as_markdown(BATCH, outputs, VOCABULARY).splitlines()[-1]
    assert last == "The second part is from elsewhere; predicted: follows (1.00)."


def test_predictions_of_a_model_with_constant_logits():
    model = BertPretrainer(small_config(len(VOCABULARY)), next_sentence=False)
    weights = variables_by_name(model)
    # With gamma 0 the output of the transform is 0, so the logits equal the output
    # bias.
    weights["cls/predictions/transform/LayerNorm/gamma"].assign(np.zeros(8))
    weights["cls/predictions/output_bias"].assign(logits(sat=0.6, cat=0.2, dog=0.1))
    batch = {name: np.repeat(values, 5, axis=0) for name, values in BATCH.items()}
    text = sample_predictions.masked_sentences(model, batch, VOCABULARY)
    assert text.count("| 1 | sat | **sat 0.60** · cat 0.20 · dog 0.10 |") == 3
    assert text.count("| 2 | cat | sat 0.60 · **cat 0.20** · dog 0.10 |") == 3
    assert "second part" not in text
