"""Many requests of random sizes: memory."""

import gc

import export_models
import numpy as np
import pytest
import tensorflow as tf

WORDS = [*"abcdefgh", "[MASK]", "é", "Ž", "猫", "abcab", "\u200b"]


def random_request(rng, kind):
    """Returns the name of a signature and its inputs, with batches of 0 to 8 rows."""
    rows = int(rng.integers(0, 9))
    if rng.random() < 0.3:
        shape = rows, int(rng.integers(1, 17))
        inputs = {
            "input_ids": rng.integers(0, 16, shape),
            "segment_ids": rng.integers(0, 2, shape),
        }
        lengths = rng.integers(1, shape[1] + 1, rows)
        tensors = {**inputs, "lengths": lengths}
        return "ids_lengths", {n: tf.constant(v, tf.int32) for n, v in tensors.items()}

    def text():
        return " ".join(rng.choice(WORDS, rng.integers(0, 60)))

    inputs = {
        name: [text() for _ in range(rows)] for name in export_models.text_names(kind)
    }
    tensors = {name: tf.constant(value, tf.string) for name, value in inputs.items()}
    if kind == "choice":
        shape = rows, int(rng.integers(0, 8))
        texts = [text() for _ in range(shape[0] * shape[1])]
        tensors["choices"] = tf.reshape(tf.constant(texts, tf.string), shape)
    return "serving_default", tensors


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classification", "span", "choice"])
def test_memory_does_not_grow_over_10000_requests(exported, kind):
    model = tf.saved_model.load(exported(kind))
    rng = np.random.default_rng(1)
    sizes = []
    for _ in range(2):
        for _ in range(5000):
            name, inputs = random_request(rng, kind)
            model.signatures[name](**inputs)
        gc.collect()
        sizes.append(resident_bytes())
    assert sizes[1] < 1.02 * sizes[0], sizes


def resident_bytes():
    """Returns the resident memory of this process."""
    with open("/proc/self/status", encoding="utf-8") as file:
        (line,) = (line for line in file if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024
