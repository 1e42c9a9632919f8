"""Batches of records: shuffled for training, in the order of the file for predictions.

Shape letters: R records, B batch, S sequence.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf import record_format
from bert_tf.record_format import Sizes
from bert_tf.runs.record_files import RecordFile
from bert_tf.tasks.results import Outputs
from bert_tf.tasks.task import LABEL_WEIGHTS, RECORD_WEIGHTS
from bert_tf.training.step.objective import ORIGIN

# A window is this many batches. Within each window, records of similar length are
# grouped into batches.
_BATCHES_PER_WINDOW = 16
_LENGTHS = 6
Batch = dict[str, Any]
# A function from serialized records, or from the indices of records, to a batch.
ToBatch = Callable[[Any], Batch]


@dataclasses.dataclass
class TrainingOrder:
    """Determines the records of each training batch, only from the arguments.

    The order is an endless sequence of epochs, each of which is a permutation of all
    records. A window, which is 16 batches, contains successive records of this order.
    The records of a window are sorted by length and cut into batches, and the batches
    are shuffled. `num_tokens` has the length of each record, int [R]; if all are
    equal, batches have records of random lengths.
    """

    num_tokens: np.ndarray
    batch_size: int
    seed: int

    def __post_init__(self) -> None:
        # The last window and the last epoch that were computed stay in memory.
        self._window = functools.lru_cache(1)(self._batches_of_window)
        self._epoch = functools.lru_cache(1)(self._permutation)

    def batch(self, step: int) -> np.ndarray:
        """Returns the indices of the records of a step's batch: int64 [B]."""
        window, number = divmod(step, _BATCHES_PER_WINDOW)
        return self._window(window)[number].astype(np.int64)

    def _batches_of_window(self, window: int) -> np.ndarray:
        size = _BATCHES_PER_WINDOW * self.batch_size
        records = self._records_at(window * size, (window + 1) * size)
        records = records[np.argsort(self.num_tokens[records], kind="stable")]
        batches = records.reshape(_BATCHES_PER_WINDOW, -1)  # [16, B]
        np.random.default_rng([self.seed, 1, window]).shuffle(batches)
        return batches

    def _records_at(self, start: int, end: int) -> np.ndarray:
        """Returns the records at positions [start, end) of the sequence of epochs."""
        count = len(self.num_tokens)
        parts = []
        while start < end:
            epoch, first = divmod(start, count)
            parts.append(self._epoch(epoch)[first : first + end - start])
            start += len(parts[-1])
        return np.concatenate(parts)

    def _permutation(self, epoch: int) -> np.ndarray:
        records: np.ndarray = np.arange(len(self.num_tokens), dtype=np.uint32)
        np.random.default_rng([self.seed, 0, epoch]).shuffle(records)
        return records


# AutoGraph would convert the functions of the dataset first, which takes longer than
# tracing them.
@tf.autograph.experimental.do_not_convert
def training_batches(
    records: RecordFile,
    order: TrainingOrder,
    parse: ToBatch,
    first_step: int,
    weights: np.ndarray | None = None,
) -> tf.data.Dataset:
    """Returns the endless dataset of the batches of `order` from `first_step` on.

    A batch also has the feature `objective.ORIGIN` with the indices of its records.
    `weights` has the weight of each record in the loss, float32 [R]; None if all are 1.
    """
    load = make_loader(records, parse)

    def indices_of(step: Any) -> Any:
        indices = tf.numpy_function(lambda n: order.batch(int(n)), [step], tf.int64)
        return tf.ensure_shape(indices, [order.batch_size])

    def to_batch(indices: Any) -> Batch:
        origin = tf.stack([tf.zeros_like(indices), indices], axis=1)
        batch = load(indices)
        if weights is not None:
            batch[RECORD_WEIGHTS] = tf.gather(weights, indices)
        # Records of `unlabelled_file` follow all others.
        if weights is not None or records.num_labelled < len(records):
            batch = _with_record_weights(batch, indices < records.num_labelled)
        return {**batch, ORIGIN: origin}

    steps = tf.data.Dataset.range(first_step, np.iinfo(np.int64).max)
    return steps.map(indices_of).map(to_batch).prefetch(2)


def make_loader(records: RecordFile, parse: ToBatch) -> ToBatch:
    """Returns a function from the indices of records, int64 [B], to a batch.

    The batch also has the features in `RecordFile.caches`, and their masks.
    """

    def read(indices: np.ndarray) -> np.ndarray:
        return np.array(records.read(indices), object)

    def load(indices: Any) -> Batch:
        serialized = tf.numpy_function(read, [indices], tf.string)
        batch = parse(tf.ensure_shape(serialized, indices.shape))
        for name, cache in records.caches.items():
            batch[name], batch[f"{name}_mask"] = cache.tensors(
                indices, tf.shape(batch["input_ids"])[-1]
            )
        return batch

    return load


def _with_record_weights(batch: Batch, is_labelled: Any) -> Batch:
    """Multiplies the weights of labels by the weights of records.

    Examples without labels have the weight 0. `is_labelled` is bool [B].
    """
    weights = tf.where(is_labelled, batch.get(RECORD_WEIGHTS, 1.0), 0.0)
    # [B] -> [B, 1] for labels [B, S]
    for _ in batch["label_ids"].shape[1:] if "label_ids" in batch else ():
        weights = weights[..., None]
    return {**batch, LABEL_WEIGHTS: batch.get(LABEL_WEIGHTS, 1.0) * weights}


def length_step(objective: Any, max_seq_length: int) -> int:
    """Returns the number of positions of whose multiples batches have a length; 0 for one length.

    On JAX, which compiles a program for each length, there are at most `_LENGTHS`.
    """
    if objective.model.skip_padding:
        return 1
    if keras.backend.backend() == "jax" and not objective.full_length:
        return -(-max_seq_length // (8 * _LENGTHS)) * 8
    return 0


def make_parser(table: record_format.Table, sizes: Sizes, multiple: int) -> ToBatch:
    """Returns a function that parses serialized records, for `tf.data.Dataset.map`.

    The function removes the padding that all sequences of a batch share, up to a
    multiple of `multiple` positions; it removes none if `multiple` is 0.
    """
    parse = record_format.parser(table, sizes)
    axes = {
        feature.name: 1 + feature.shape.index("S")
        for feature in table
        if "S" in feature.shape
    }

    def parse_and_trim(serialized: Any) -> Batch:
        batch = parse(serialized)
        longest = tf.reduce_max(tf.reduce_sum(batch["input_mask"], axis=-1))
        if multiple > 1:
            longest = -(-longest // multiple) * multiple
        return {
            name: _first_along(values, axes[name], longest) if name in axes else values
            for name, values in batch.items()
        }

    return parse_and_trim if multiple else parse


def compiled_forward(
    function: Callable[[Batch], Batch], variables: Mapping[str, Any], load: ToBatch
) -> Callable[[Batch], Mapping[str, np.ndarray]]:
    """Returns a compiled form of a function from batches of `load` to outputs of a model.

    The outputs are arrays. On TensorFlow, the function is traced once for all sizes and
    lengths; on JAX, a program is compiled for each. `variables` are those of the model.
    """
    if keras.backend.backend() == "jax":
        from bert_tf.training.jax_step import stateless

        return stateless.compiled_forward(function, variables)
    traced = _traced_once(function, load)
    return lambda batch: {name: value.numpy() for name, value in traced(batch).items()}


def _traced_once(function: Callable[[Any], Any], load: ToBatch) -> Any:
    indices = tf.TensorSpec([None], tf.int64)
    loading = tf.function(load, autograph=False).get_concrete_function(indices)
    outputs = loading.structured_outputs
    batch = tf.nest.map_structure(
        lambda each: tf.TensorSpec(each.shape, each.dtype), outputs
    )
    return tf.function(function, input_signature=[batch], autograph=False)


def _first_along(values: Any, axis: int, size: Any) -> Any:
    """Returns the first `size` entries along an axis; the other axes keep their static sizes."""
    cut = values[(slice(None),) * axis + (slice(None, size),)]
    shape = values.shape.as_list()
    return tf.ensure_shape(cut, [*shape[:axis], None, *shape[axis + 1 :]])


def predict(
    records: RecordFile,
    load: ToBatch,
    forward: Callable[[Any], Mapping[str, np.ndarray]],
    batch_size: int,
) -> Iterator[Outputs]:
    """Yields the outputs of the model for each record, in the order of the file.

    Records of similar length are computed together, so the outputs of different records
    may have been cut to different lengths. `forward` converts a batch to outputs
    [B, ...] by name.
    """
    size = _BATCHES_PER_WINDOW * batch_size

    def batch(number: int) -> np.ndarray:
        """Returns the indices of the records of a batch; each window is sorted by length."""
        start = number // _BATCHES_PER_WINDOW * size
        window = np.arange(start, min(start + size, len(records)))
        window = window[np.argsort(records.index.num_tokens[window], kind="stable")]
        first = number % _BATCHES_PER_WINDOW * batch_size
        return window[first : first + batch_size]

    def load_batch(number: Any) -> Any:
        indices = tf.numpy_function(lambda n: batch(int(n)), [number], tf.int64)
        return load(tf.ensure_shape(indices, [None]))

    dataset = (
        tf.data.Dataset.range(-(-len(records) // batch_size))
        .map(tf.autograph.experimental.do_not_convert(load_batch))
        .prefetch(2)
    )

    # The outputs of a record wait until those of all records before it are known.
    waiting: dict[int, Outputs] = {}
    done = 0
    for number, inputs in enumerate(dataset):
        outputs = forward(inputs)
        for row, record in enumerate(batch(number).tolist()):
            waiting[record] = {name: value[row] for name, value in outputs.items()}
        while done in waiting:
            yield waiting.pop(done)
            done += 1
