"""Losses of vectors and their gradients, compared with the definitions in NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from reference import vectors as reference

from bert_tf.tasks.embedding.losses import BatchLoss
from bert_tf.tasks.task import LABEL_WEIGHTS

ROWS, TEXTS, SIZE, SCALE = 5, 3, 6, 20.0
# Texts by their tokens. Row 1 has the first text of row 0, row 2 the second one; the
# negative of row 3 is its own second text; 0 is a missing text.
TOKENS = np.array([[1, 2, 3], [1, 4, 0], [5, 2, 6], [7, 8, 8], [9, 10, 0]])
SCORES = np.array([0.2, 0.8, 0.2, 1.0, 0.0], np.float32)
SCORED = ("cosine", "cosent")


def random_vectors():
    return np.random.default_rng(0).normal(size=(ROWS, TEXTS, SIZE))


def expected_rows(kind, vectors, both_directions):
    """Returns the loss of each row by its definition."""
    pairs = vectors[:, :2]
    if kind == "cosine":
        return reference.squared(pairs, SCORES)
    if kind == "cosent":
        return np.full(ROWS, reference.cosent(pairs, SCORES, SCALE))
    rows = [
        [(token, vector) if token else None for token, vector in zip(*row, strict=True)]
        for row in zip(TOKENS.tolist(), vectors, strict=True)
    ]
    return reference.contrastive(rows, SCALE, both_directions)


def values_of(vectors):
    keys = np.stack([TOKENS, 7 * TOKENS], axis=-1).astype(np.int32)
    return {"vectors": vectors, "text_keys": keys, "label_ids": SCORES}


@pytest.mark.parametrize("sizes", [(SIZE,), (SIZE, 2), (SIZE, 1, 4)])
@pytest.mark.parametrize(
    ("kind", "both"),
    [
        *((kind, False) for kind in SCORED),
        ("contrastive", False),
        ("contrastive", True),
    ],
)
def test_losses_and_gradients_are_those_of_the_definition(kind, both, sizes):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("the gradients are computed by TensorFlow")
    loss = BatchLoss(kind, SCALE, both, sizes)

    def expected(vectors):
        cuts = [expected_rows(kind, vectors[..., :size], both) for size in sizes]
        return np.mean(cuts, axis=0)

    vectors = random_vectors()
    given = tf.constant(vectors, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(given)
        rows = loss.of_rows(values_of(given))["loss"]
        mean = tf.reduce_mean(rows)
    found = tape.gradient(mean, given)
    exact = given.numpy().astype(np.float64)
    gradient = reference.gradient(lambda v: expected(v).mean(), exact)
    np.testing.assert_allclose(rows, expected(exact), 1e-5, 1e-6)
    np.testing.assert_allclose(found, gradient, 1e-4, 1e-6)
    # One value with length 1 has a gradient of only rounding errors.
    if 1 not in sizes:
        for array, right in ((rows, expected(exact)), (found, gradient)):
            np.testing.assert_allclose(array, right, 0, 1e-6 * abs(right).max())


def test_a_row_is_correct_if_its_second_text_is_the_nearest():
    # Row 0 has its own second text; the first text of row 1 is nearer to that of row 0,
    # which is left out because it is equal to the second text of row 1.
    vectors = np.zeros((3, 2, 2), np.float32)
    vectors[:] = [1, 0]
    vectors[1, 0] = vectors[2, 1] = [0, 1]
    keys = np.array([[1, 2], [3, 2], [5, 6]], np.int32)[..., None]
    values = {
        "vectors": vectors,
        "text_keys": keys,
        "label_ids": np.zeros(3, np.float32),
    }
    rows = BatchLoss("contrastive", SCALE, False, (2,)).of_rows(values)
    np.testing.assert_array_equal(rows["correct"], [1, 0, 0])


def test_rows_without_weight_do_not_count_in_cosent():
    vectors = random_vectors().astype(np.float32)
    weights = np.array([1, 0, 1, 1, 0], np.float32)
    loss = BatchLoss("cosent", SCALE, False, (SIZE,))
    found = loss.of_rows({**values_of(vectors), LABEL_WEIGHTS: weights})["loss"]
    used = weights > 0
    expected = reference.cosent(vectors[used, :2].astype(float), SCORES[used], SCALE)
    np.testing.assert_allclose(found, np.full(ROWS, expected), 1e-5)


def test_a_text_without_tokens_has_a_vector_and_a_gradient_of_zeros():
    vectors = tf.Variable(random_vectors().astype(np.float32))
    vectors[4, 2].assign(np.zeros(SIZE))
    with tf.GradientTape() as tape:
        rows = BatchLoss("contrastive", SCALE, False, (SIZE,)).of_rows(
            values_of(vectors)
        )
        total = tf.reduce_sum(rows["loss"])
    gradient = tape.gradient(total, vectors)
    assert np.isfinite(gradient).all()
    assert not gradient[4, 2].numpy().any()
