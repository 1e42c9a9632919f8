"""The vectors of a batch, whose first texts are computed apart from the others."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny_bert import SPECIAL, small_config

from bert_tf import BertTokenizer
from bert_tf.tasks.embedding.embedding_settings import EmbeddingSettings
from bert_tf.tasks.embedding.embedding_task import EmbeddingTask
from bert_tf.tasks.embedding.text_rows import PairColumns, TextRow

COLUMNS = PairColumns("q", "a", ("n",))


def objective_and_batch(rows, dropout, pooling="mean"):
    tokenizer = BertTokenizer([*SPECIAL, *"abcdefg"], do_lower_case=True)
    task = EmbeddingTask(COLUMNS, EmbeddingSettings(pooling=pooling))
    config = small_config(
        tokenizer.vocab_size,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    objective = task.make_objective(config, seed=0, dtype="float32")
    encoded = task.encode([TextRow(row) for row in rows], tokenizer, 12).columns
    batch = {
        name: tf.constant(np.asarray(value).astype(np.int32))
        for name, value in encoded.items()
        if name.startswith(("input", "segment", "text"))
    }
    return objective, batch


def vectors(objective, batch, skip_padding, training=False):
    objective.model.skip_padding = skip_padding
    outputs = objective.outputs_of_model(batch, training, tf.constant([1, 2]))
    return outputs["vectors"].numpy()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    ("others", "pooling"),
    [(("b c d e f g", ""), "mean"), (("b", "a b c"), "first"), (("", ""), "first")],
)
def test_groups_of_texts_have_the_vectors_of_one_batch(others, training, pooling):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("skip_padding needs shapes that depend on values")
    rows = [("a", *others), ("a b c", "b c", "")]
    if not any(others):
        rows = rows[:1]
    objective, batch = objective_and_batch(rows, 0.0, pooling)
    found, expected = (
        vectors(objective, batch, skips, training) for skips in (True, False)
    )
    np.testing.assert_allclose(found, expected, 0, 1e-5)


def test_equal_texts_of_a_row_have_different_dropout_masks():
    if keras.backend.backend() != "tensorflow":
        pytest.skip("skip_padding needs shapes that depend on values")
    objective, batch = objective_and_batch([("a b", "a b", "a b")], 0.5)
    found = vectors(objective, batch, True, training=True)[0]
    again = vectors(objective, batch, True, training=True)[0]
    np.testing.assert_array_equal(found, again)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert abs(found[one] - found[other]).max() > 0.01
