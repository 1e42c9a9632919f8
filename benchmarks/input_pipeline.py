r"""Measures the throughput of the input pipeline of pretraining.

    python benchmarks/input_pipeline.py --input_file=records/train-*.tfrecord \
      --max_seq_length=128 --max_predictions_per_seq=20

Measures three pipelines on the same records and prints the median and the best of
several rounds: TensorFlow's reader alone (the upper limit); a plain pipeline that
reads, shuffles, batches and parses; and bert-tf's pipeline, which also records the
origin of each example and checks the ids. bert-tf's pipeline saves the state of its
iterator in each checkpoint. The program also prints the size of this state, and the
time to write this state. --vocab_size=0 turns off the check of the ids. --part=0,4 also
measures the pipeline of the first of 4 workers, each of which parses only its own part
of a batch. Rates and processor times are those of complete batches, also if only a part
of a batch is parsed.
"""

import itertools
import os
import statistics
import tempfile
import time

import tensorflow as tf
from absl import app, flags, logging

from bert_tf import record_format
from bert_tf.masking.algorithm import Vocabulary
from bert_tf.masking.dynamic_masks import DynamicMasks
from bert_tf.masking.masking_config import MaskingConfig
from bert_tf.pretraining import batches, record_checks
from bert_tf.storage import tfrecords
from bert_tf.tokenization import BertTokenizer

flags.DEFINE_string(
    "input_file", None, "Record files, a comma-separated list of globs.", required=True
)
flags.DEFINE_integer("max_seq_length", 128, "The max_seq_length of the records.")
flags.DEFINE_integer(
    "max_predictions_per_seq", 20, "The max_predictions_per_seq of the records."
)
flags.DEFINE_integer(
    "vocab_size",
    30522,
    "Number of vocabulary entries; 0 turns off the check of the ids.",
)
flags.DEFINE_string(
    "vocab_file",
    None,
    "The vocabulary, for records of --masking=dynamic; measures three masks.",
)
flags.DEFINE_integer("batch_size", 32, "Number of examples per batch.")
flags.DEFINE_integer(
    "shuffle_buffer_size", 10000, "Number of examples in the shuffle buffer."
)
flags.DEFINE_list("part", None, "The index of a worker and the number of workers.")
flags.DEFINE_integer(
    "rounds", 5, "Number of rounds; each round measures every pipeline once."
)
flags.DEFINE_float("secs", 2.0, "Seconds per measurement.")

SEED = 1


def reader_only(paths: list[str]) -> tf.data.Dataset:
    records = tf.data.TFRecordDataset(paths, tfrecords.compression(paths[0]))
    return records.repeat().batch(1024)


def plain_pipeline(paths: list[str], sizes: dict[str, int]) -> tf.data.Dataset:
    values = flags.FLAGS
    names = tf.data.Dataset.from_tensor_slices(paths).shuffle(len(paths), SEED)
    records = names.interleave(
        lambda path: tf.data.TFRecordDataset(path, tfrecords.compression(paths[0])),
        cycle_length=min(len(paths), 16),
    )
    records = (
        records.shuffle(values.shuffle_buffer_size, SEED)
        .repeat()
        .batch(values.batch_size)
    )
    parse = record_format.parser(record_format.PRETRAINING, sizes)
    return records.map(parse, num_parallel_calls=2).prefetch(2)


def masked_pipelines(
    paths: list[str], sizes: dict[str, int], part: tuple[int, int] | None
) -> dict[str, tf.data.Dataset]:
    """Returns the pipelines that mask single tokens, whole words and n-grams."""
    values, vocabulary = (
        flags.FLAGS,
        Vocabulary.of(BertTokenizer(flags.FLAGS.vocab_file)),
    )
    sizes = {**sizes, "V": vocabulary.size}
    most = values.max_predictions_per_seq
    configs = {
        "single tokens": MaskingConfig(max_predictions_per_seq=most),
        "whole words": MaskingConfig(
            max_predictions_per_seq=most, do_whole_word_mask=True
        ),
        "n-grams": MaskingConfig(
            max_predictions_per_seq=most, do_whole_word_mask=True, max_ngram_size=3
        ),
    }
    return {
        name: batches.training_batches(
            paths, sizes, values.batch_size, SEED, values.shuffle_buffer_size,
            DynamicMasks(config, vocabulary), part,
        )
        for name, config in configs.items()
    }  # fmt: skip


def records_per_sec(iterator: tf.data.Iterator, batch_size: int) -> tuple[float, float]:
    """Measures after the shuffle buffer has been filled.

    Returns:
        The number of records per second, and the processor time of a record in seconds.
    """
    for _ in itertools.islice(iterator, 3):
        pass
    start, processor, records = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - start < flags.FLAGS.secs:
        next(iterator)
        records += batch_size
    processor = time.process_time() - processor
    return records / (time.perf_counter() - start), processor / records


def print_position_size(iterator: tf.data.Iterator) -> None:
    """Prints the size of an iterator's saved state, and the time to save it."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        tf.train.Checkpoint(iterator=iterator).write(os.path.join(folder, "position"))
        secs = time.perf_counter() - start
        size = sum(entry.stat().st_size for entry in os.scandir(folder))
    print(
        f"position in the data pipeline: {size / 1e6:,.1f} MB, written in {secs:.2f} s"
    )


def main(_: list[str]) -> None:
    logging.set_verbosity(logging.WARNING)
    values = flags.FLAGS
    paths = record_checks.record_files(values.input_file)
    sizes = {"S": values.max_seq_length, "P": values.max_predictions_per_seq}
    limits = {**sizes, "V": values.vocab_size or 1 << 31, "T": 2}
    batch, buffer = values.batch_size, values.shuffle_buffer_size
    iterators = {"reader alone": (iter(reader_only(paths)), 1024)}
    part = tuple(map(int, values.part)) if values.part else None
    parts = {"": None, f" part {part}": part} if part else {"": None}
    if values.vocab_file:
        for suffix, each in parts.items():
            masked = masked_pipelines(paths, sizes, each)
            iterators |= {
                name + suffix: (iter(data), batch) for name, data in masked.items()
            }
    else:
        iterators["plain pipeline"] = (iter(plain_pipeline(paths, sizes)), batch)
        for suffix, each in parts.items():
            ours = batches.training_batches(
                paths, limits, batch, SEED, buffer, part=each
            )
            iterators["bert-tf" + suffix] = (iter(ours), batch)
    rates = {name: [] for name in iterators}
    for _ in range(values.rounds):
        for name, (iterator, size) in iterators.items():
            rates[name].append(records_per_sec(iterator, size))
    print(f"{len(paths)} files, length {values.max_seq_length}, batches of {batch}")
    for name, measured in rates.items():
        speeds, processor = zip(*measured, strict=True)
        median, used = statistics.median(speeds), statistics.median(processor)
        print(
            f"{name:15}{median:>10,.0f} records/s, best {max(speeds):>10,.0f}; "
            f"{median * values.max_seq_length / 1e6:6.2f} M tokens/s, processor time "
            f"of 100,000 records {used * 1e5:.2f} s"
        )
    print_position_size([*iterators.values()][-1][0])


if __name__ == "__main__":
    app.run(main)
