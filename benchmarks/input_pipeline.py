r"""The input pipeline of pretraining alone: records a second, to compare with what a step takes.

    python benchmarks/input_pipeline.py --input_file=records/train-*.tfrecord \
      --max_seq_length=128 --max_predictions_per_seq=20

Prints, as the best and the median of several rounds on the same records: TensorFlow's reader alone
(the limit), reading, shuffling and parsing whole batches with nothing else, and ours, which also
says where each example came from and checks the ids. Then how large the position in the data is in
a checkpoint, and how long writing it takes. --vocab_size=0 leaves the check of the ids out.
"""

import itertools
import os
import statistics
import tempfile
import time

import tensorflow as tf
from absl import app, flags, logging

from bert_tf import features
from bert_tf.pretraining import batches, damage, record_checks

flags.DEFINE_string("input_file", None, "Records, a comma list of globs.", required=True)
flags.DEFINE_integer("max_seq_length", 128, "Their length.")
flags.DEFINE_integer("max_predictions_per_seq", 20, "Length of their predictions.")
flags.DEFINE_integer("vocab_size", 30522, "Size of their vocabulary.")
flags.DEFINE_integer("batch_size", 32, "Examples in a batch.")
flags.DEFINE_integer("shuffle_buffer_size", 10000, "Examples that the order is drawn from.")
flags.DEFINE_integer("rounds", 5, "Rounds, in each of which every pipeline has its turn.")
flags.DEFINE_float("secs", 2.0, "Seconds of a turn.")

SEED = 1


def read_only(paths: list[str]) -> tf.data.Dataset:
    records = tf.data.TFRecordDataset(paths, damage.compression(paths[0]))
    return records.repeat().batch(1024)


def plain(paths: list[str], sizes: dict[str, int]) -> tf.data.Dataset:
    values = flags.FLAGS
    names = tf.data.Dataset.from_tensor_slices(paths).shuffle(len(paths), SEED)
    records = names.interleave(
        lambda path: tf.data.TFRecordDataset(path, damage.compression(paths[0])),
        cycle_length=min(len(paths), 16),
    )
    records = records.shuffle(values.shuffle_buffer_size, SEED).repeat().batch(values.batch_size)
    parse = features.parser(features.PRETRAINING, sizes)
    return records.map(parse, num_parallel_calls=2).prefetch(2)


def rate(iterator: tf.data.Iterator, batch_size: int) -> float:
    """Records a second, after the shuffle buffer is full."""
    for _ in itertools.islice(iterator, 3):
        pass
    start, records = time.perf_counter(), 0
    while time.perf_counter() - start < flags.FLAGS.secs:
        next(iterator)
        records += batch_size
    return records / (time.perf_counter() - start)


def print_position(iterator: tf.data.Iterator) -> None:
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        tf.train.Checkpoint(iterator=iterator).write(os.path.join(folder, "position"))
        secs = time.perf_counter() - start
        size = sum(entry.stat().st_size for entry in os.scandir(folder))
    print(f"position in the data: {size / 1e6:,.1f} MB, written in {secs:.2f} s")


def main(_: list[str]) -> None:
    logging.set_verbosity(logging.WARNING)
    values = flags.FLAGS
    paths = record_checks.record_files(values.input_file)
    sizes = {"S": values.max_seq_length, "P": values.max_predictions_per_seq}
    limits = {**sizes, "V": values.vocab_size} if values.vocab_size else sizes
    batch, buffer = values.batch_size, values.shuffle_buffer_size
    iterators = {
        "reader alone": (iter(read_only(paths)), 1024),
        "plain pipeline": (iter(plain(paths, sizes)), batch),
        "ours": (iter(batches.training_batches(paths, limits, batch, SEED, buffer)), batch),
    }
    rates = {name: [] for name in iterators}
    for _ in range(values.rounds):
        for name, (iterator, size) in iterators.items():
            rates[name].append(rate(iterator, size))
    print(f"{len(paths)} files, length {values.max_seq_length}, batches of {batch}")
    for name, found in rates.items():
        print(
            f"{name:15}{statistics.median(found):>10,.0f} records/s, best {max(found):>10,.0f}; "
            f"{statistics.median(found) * values.max_seq_length / 1e6:6.2f} M tokens/s"
        )
    print_position(iterators["ours"][0])


if __name__ == "__main__":
    app.run(main)
