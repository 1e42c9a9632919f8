"""Reads pretraining records as batches for training and for evaluation."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.masking.dynamic_masks import DynamicMasks
from bert_tf.pretraining.record_checks import checking_parser
from bert_tf.pretraining.record_masking import masker
from bert_tf.record_format import Sizes
from bert_tf.storage import tfrecords
from bert_tf.training.step.objective import ORIGIN, Tensors

# TensorFlow combines the seed of `Dataset.shuffle` with the seed of the graph. This is
# the seed of a graph in programs that do not call `tf.random.set_seed`.
_GRAPH_SEED = 87654321
_FILES_AT_ONCE = 16
_READ_BYTES = 1 << 20  # in a remote store, small reads take as long as large reads
# Upper bound: one int64 encodes the indices of file and record.
_RECORDS_PER_FILE = 1 << 40
_MAX_LISTED_RECORDS = 5  # in a message
_MASKED_AT_ONCE = 256  # masking fewer rows at a time is slower


def shuffle(dataset: tf.data.Dataset, buffer_size: int, seed: int) -> tf.data.Dataset:
    """Shuffles as `Dataset.shuffle` does, but independently of `tf.random.set_seed`.

    The order is the one of `dataset.shuffle(buffer_size, seed,
    reshuffle_each_iteration=True)` in a program that does not call
    `tf.random.set_seed`. With `Dataset.shuffle`, a run that is resumed in a program
    with another global seed would read the later epochs in another order.
    """

    @tf.function(autograph=False)
    def shuffled(dataset: Any) -> Any:
        # This sets the seed of this function's graph only.
        tf.compat.v1.set_random_seed(_GRAPH_SEED)
        return dataset.shuffle(buffer_size, seed, reshuffle_each_iteration=True)

    # TensorFlow warns if many functions are traced by calls, but not if they are traced
    # like this.
    return shuffled.get_concrete_function(dataset)(dataset)


# AutoGraph would convert the functions of the dataset first, which takes longer than
# tracing them.
@tf.autograph.experimental.do_not_convert
def training_batches(
    paths: Sequence[str],
    sizes: Sizes,
    batch_size: int,
    seed: int,
    shuffle_buffer_size: int,
    masks: DynamicMasks | None = None,
    part: tuple[int, int] | None = None,
) -> tf.data.Dataset:
    """Returns endless shuffled batches in an order that depends only on the seed.

    A batch also contains the feature `objective.ORIGIN`, int64 [B, 2]: for each
    example, the index of its file in `paths`, and of its record in this file.

    The position of the dataset's iterator can be saved in a checkpoint. This position
    does not include file names or file contents. So a run can resume after the files
    were moved, or were replaced by the copies that `damaged_records.salvage` writes.

    Args:
        paths: Record files, plain or compressed with gzip.
        sizes: {"S": max_seq_length, "P": max_predictions_per_seq, "V": vocab_size, "T":
            type_vocab_size}. The records must have been created with the same S and P.
        shuffle_buffer_size: Size of the shuffle buffer, in examples.
        masks: How unmasked records are masked; None if the records have masks.
        part: (n, N) to parse and return only part n of N equal parts of each batch;
            None for complete batches. A saved position of one part can be restored in
            any other part, also with another N. But a position of parts cannot be
            restored for complete batches, nor the reverse.

    Raises:
        InputError: The records do not match `record_format.PRETRAINING` or, with
            `masks`, `record_format.unmasked`; or the length of a file differs from the
            length in its manifest.
    """
    parse = checking_parser(paths, sizes)
    dataset = _shuffled_records(paths, seed, shuffle_buffer_size)

    # The masks depend on the index of the record in the stream.
    mask: Any = masker(masks, sizes, seed) if masks else None
    if mask:
        dataset = dataset.enumerate()

    def to_examples(*element: Any) -> Tensors:
        *index, location, records = tf.nest.flatten(element)
        examples: Tensors = parse(records)
        if mask:
            examples = mask(*index, examples)
        origin = [location // _RECORDS_PER_FILE, location % _RECORDS_PER_FILE]
        return {**examples, ORIGIN: tf.stack(origin, axis=1)}

    if part is not None:
        return _parts(
            dataset, to_examples, batch_size, part, is_masked=masks is not None
        )

    # Many rows are masked at once, and then divided into batches.
    at_once = _rows_at_once(batch_size) if masks else batch_size
    dataset = dataset.batch(at_once, drop_remainder=True)
    dataset = dataset.map(to_examples, num_parallel_calls=2, deterministic=True)
    if masks:
        dataset = dataset.rebatch(batch_size, drop_remainder=True)
    return dataset.prefetch(2)


def _shuffled_records(
    paths: Sequence[str], seed: int, buffer_size: int
) -> tf.data.Dataset:
    """Returns an endless shuffled dataset of the pairs (location, record) from `_reader`."""
    indices = shuffle(tf.data.Dataset.range(len(paths)), len(paths), seed)
    dataset = indices.interleave(
        _reader(paths), cycle_length=min(len(paths), _FILES_AT_ONCE)
    )
    return shuffle(dataset, buffer_size, seed).repeat()


def _parts(
    dataset: tf.data.Dataset,
    to_examples: Callable[..., Tensors],
    batch_size: int,
    part: tuple[int, int],
    is_masked: bool,
) -> tf.data.Dataset:
    """Parses part n of N equal parts of each batch, for (n, N) in `part`.

    The saved position of the iterator contains the batches that were parsed ahead, with
    all their records. Another part can therefore resume from this position: `select`
    parses the few batches again that were parsed for a different part. If `is_masked`,
    `to_examples` also masks the records, and gets many rows at once.
    """
    number, parts = part
    size = batch_size // parts
    at_once = _rows_at_once(size) // size if is_masked else 1

    def parse_rows(*batches: Any) -> Tensors:
        def rows(values: Any) -> Any:
            return tf.reshape(tf.reshape(values, [-1, parts, size])[:, number], [-1])

        return to_examples(*tf.nest.map_structure(rows, batches))

    def parse_ahead(*batches: Any) -> Any:
        def divide(values: Any) -> Any:
            return tf.reshape(
                values, [at_once, values.shape[0] // at_once, *values.shape[1:]]
            )

        parsed_part = tf.constant([part] * at_once)
        return tf.nest.map_structure(
            divide, (batches, parsed_part, parse_rows(*batches))
        )

    def select(batch: Any, parsed_part: Any, examples: Any) -> Tensors:
        is_own = tf.reduce_all(parsed_part == [part])
        return tf.cond(is_own, lambda: examples, lambda: parse_rows(*batch))

    dataset = dataset.batch(batch_size * at_once, drop_remainder=True)
    dataset = dataset.map(parse_ahead, num_parallel_calls=2, deterministic=True)
    dataset = dataset.unbatch().prefetch(2)
    options = tf.data.Options()  # no buffer after `select`
    options.experimental_optimization.map_parallelization = False
    options.experimental_optimization.inject_prefetch = False
    return dataset.map(select).with_options(options)


def _rows_at_once(batch_size: int) -> int:
    """Returns the multiple of `batch_size`, at least `_MASKED_AT_ONCE`, to mask at once."""
    return -(-_MASKED_AT_ONCE // batch_size) * batch_size


@tf.autograph.experimental.do_not_convert
def evaluation_batches(
    paths: Sequence[str],
    sizes: Sizes,
    batch_size: int,
    masks: DynamicMasks | None = None,
) -> tf.data.Dataset:
    """Returns batches that contain each example once, in the order of the files.

    The last batch may be smaller. The arguments and the errors are as in
    `training_batches`. The masks of a record are the same in each evaluation.
    """
    parse = checking_parser(paths, sizes)
    dataset = tf.data.Dataset.range(len(paths)).flat_map(_reader(paths))
    if masks is None:
        return (
            dataset.batch(batch_size)
            .map(lambda place, records: parse(records))
            .prefetch(2)
        )

    # The index 0 gives a record the same masks in each evaluation.
    mask = masker(masks, sizes)
    dataset = dataset.batch(_rows_at_once(batch_size))
    dataset = dataset.map(
        lambda place, records: mask(tf.constant(0, tf.int64), parse(records))
    )
    return dataset.rebatch(batch_size).prefetch(2)


def _reader(paths: Sequence[str]) -> Callable[[Any], tf.data.Dataset]:
    """Returns a function from the index of a file to a dataset of (location, record).

    The location is an int64, `file * _RECORDS_PER_FILE + record`, where `file` and
    `record` are indices from 0.
    """
    names = tf.constant(list(paths))
    compressions = tf.constant([tfrecords.compression(path) for path in paths])

    def read(file: Any) -> tf.data.Dataset:
        # The saved position of a `tf.data.TFRecordDataset` would contain the file name.
        records = tf.data.experimental.from_variant(
            tf.raw_ops.TFRecordDataset(
                filenames=names[file],
                compression_type=compressions[file],
                buffer_size=_READ_BYTES,
            ),
            tf.TensorSpec([], tf.string),
        )
        return records.enumerate(file * _RECORDS_PER_FILE)

    return read


def describe_origins(paths: Sequence[str], origins: np.ndarray) -> str:
    """Lists records by file: "a: records 17, 42; b: records 3, and 27 more".

    `paths` are the files of `training_batches`, and `origins` is the feature
    `objective.ORIGIN` of N examples, int64 [N, 2].
    """
    places = np.unique(np.asarray(origins), axis=0).tolist()
    groups = itertools.groupby(places[:_MAX_LISTED_RECORDS], key=lambda place: place[0])
    described = [
        f"{paths[file]}: records {', '.join(str(record) for _, record in group)}"
        for file, group in groups
    ]
    more = len(places) - _MAX_LISTED_RECORDS
    return "; ".join(described) + (f", and {more} more" if more > 0 else "")
