"""Many requests of random sizes: memory."""

import gc

import export_models
import numpy as np
import pytest
import tensorflow as tf

WORDS = [*"abcdefgh", "[MASK]", "é", "Ž", "猫", "abcab", "\u200b"]


def random_request(rng, kind):
    """Returns the name of a signature and its inputs, with batches of 1 to 8 rows."""
    rows = int(rng.integers(1, 9))
    if rng.random() < 0.3:
        lengths = rng.integers(1, 17, rows, np.int32)
        ids = rng.integers(0, 16, (rows, lengths.max()), np.int32)
        inputs = {"input_ids": ids, "segment_ids": ids % 2, "lengths": lengths}
        return "ids_lengths", inputs
    texts = [" ".join(rng.choice(WORDS, rng.integers(0, 60))) for _ in range(rows)]
    return "serving_default", export_models.inputs_of(kind, texts)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classification", "span", "choice"])
def test_memory_does_not_grow_over_10000_requests(exported, kind):
    model = tf.saved_model.load(exported(kind))
    rng = np.random.default_rng(1)
    sizes = []
    for _ in range(2):
        for _ in range(5000):
            name, inputs = random_request(rng, kind)
            export_models.call(model.signatures[name], **inputs)
        gc.collect()
        sizes.append(resident_bytes())
    assert sizes[1] < 1.02 * sizes[0], sizes


def resident_bytes():
    """Returns the resident memory of this process."""
    with open("/proc/self/status", encoding="utf-8") as file:
        (line,) = (line for line in file if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024
