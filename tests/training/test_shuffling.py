"""The order of shuffled examples: from the seed only, and the same after a restart."""

import subprocess
import sys

import pytest

# One process, because a program cannot take back a call of `tf.random.set_seed`.
PROGRAM = """
import sys
import tensorflow as tf
from bert_tf.pretraining.batches import shuffle

numbers = tf.data.Dataset.range(30)

def order(dataset, count=90):
    return [int(number) for number in dataset.repeat().take(count)]

def position(dataset):
    iterator = iter(dataset.repeat())
    return iterator, tf.train.Checkpoint(iterator=iterator)

def plain():
    return numbers.shuffle(30, 5, reshuffle_each_iteration=True)

expected = order(plain())
assert order(shuffle(numbers, 30, 5)) == expected
assert order(shuffle(numbers, 30, 6)) != expected
epochs = [expected[start : start + 30] for start in (0, 30, 60)]
assert all(sorted(epoch) == list(range(30)) for epoch in epochs)
assert len({tuple(epoch) for epoch in epochs}) == 3

# A checkpoint of a program with another global seed, saved within the first epoch.
iterator, checkpoint = position(plain())
for _ in range(20):
    next(iterator)
saved = checkpoint.write(sys.argv[1])
for global_seed in (1, 2):
    tf.random.set_seed(global_seed)
    assert order(plain()) != expected  # this is why `shuffle` exists
    assert order(shuffle(numbers, 30, 5)) == expected
    iterator, checkpoint = position(shuffle(numbers, 30, 5))
    checkpoint.read(saved).assert_consumed()
    assert [int(next(iterator)) for _ in range(70)] == expected[20:]
    first = float(tf.random.uniform([]))
    tf.random.set_seed(global_seed)
    order(shuffle(numbers, 30, 5))
    assert float(tf.random.uniform([])) == first  # no draw from the global generator
"""


@pytest.mark.medium
def test_the_order_depends_on_the_given_seed_only(tmp_path):
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "position")]
    done = subprocess.run(command, check=True, stderr=subprocess.PIPE, text=True)
    assert "retracing" not in done.stderr  # TensorFlow warns about functions in loops
