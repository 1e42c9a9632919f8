"""`FeatureCache`: the hidden states of a frozen encoder for each record, on disk.

A cache is a folder with `cache.json` and arrays in .npy files (shards). It is written once, before
the training of a head, and read at random positions.

Imports foundation modules, `record_files` and `task`. Shape letters: R records, B batch, T tokens
of a record, K hidden states of a token, H hidden size.
"""

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import files
from bert_tf.errors import InputError, check_choice
from bert_tf.progress import Progress
from bert_tf.tasks.record_files import RecordFile, check_disk_space
from bert_tf.tasks.task import CACHED_FEATURES, CACHED_MASK
from bert_tf.training.config import first_difference

DTYPES = ("float16", "float32")
_SHARD_BYTES = 64 << 20
_RECORDS_PER_BATCH = 32
_FACTS_FILE = "cache.json"


@dataclasses.dataclass(frozen=True)
class FeatureSettings:
    """The settings of the cache of a frozen encoder's hidden states.

    Attributes:
        folder: A local folder with one cache for each split. Runs with the same data and the same
            encoder can share it, such as runs with other seeds or learning rates.
        dtype: One of `DTYPES`.

    Raises:
        InputError: A value is invalid.
    """

    folder: str
    dtype: str = "float16"

    def __post_init__(self) -> None:
        check_choice(DTYPES, "feature_dtype", self.dtype)
        if "://" in self.folder:
            raise InputError(
                f"The cache of features must be in a local folder. Received: {self.folder}. Give "
                "a local folder as feature_cache_dir."
            )


class FeatureCache:
    """The hidden states of each record.

    Args:
        folder: The folder of the cache.
        lengths: int [R], the number T of vectors of each record.
        shape: K and H.
        dtype: One of `DTYPES`.
    """

    def __init__(
        self, folder: str, lengths: np.ndarray, shape: tuple[int, int], dtype: str
    ) -> None:
        self._folder, self._shape, self._dtype = folder, shape, np.dtype(dtype)
        self._lengths: np.ndarray = lengths.astype(np.int64)
        ends = np.cumsum(self._lengths)
        per_shard = max(_SHARD_BYTES // (shape[0] * shape[1] * self._dtype.itemsize), 1)
        starts = ends - self._lengths
        firsts = np.flatnonzero(np.diff(starts // per_shard, prepend=-1))
        self._shard_of = np.searchsorted(firsts, np.arange(len(ends)), side="right") - 1
        self._starts = starts - starts[firsts][self._shard_of]
        self._bounds: np.ndarray = np.append(firsts, len(ends))
        self._arrays: list[np.ndarray] = []

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def _path(self, shard: int) -> str:
        return os.path.join(self._folder, f"shard-{shard:05d}.npy")

    def _records(self, shard: int) -> np.ndarray:
        return np.arange(self._bounds[shard], self._bounds[shard + 1])

    def _num_bytes(self, shard: int) -> int:
        vectors = int(self._lengths[self._records(shard)].sum())
        return vectors * self._shape[0] * self._shape[1] * self._dtype.itemsize

    def write(
        self, key: Mapping[str, Any], compute: Callable[[np.ndarray], np.ndarray], name: str
    ) -> None:
        """Computes the shards that do not exist yet.

        Args:
            key: JSON values that identify the content.
            compute: Takes the indices of records, int64 [B]; returns float [B, T, K, H], where T is
                at least the largest length of these records.
            name: The name of the split, for the progress display.

        Raises:
            InputError: The folder contains the cache of other data or another encoder, a shard is
                damaged, or the disk has not enough space.
        """
        checksums = self._check(key)
        missing = [n for n in range(len(self)) if os.path.basename(self._path(n)) not in checksums]
        if missing:
            check_disk_space(
                self._folder, sum(map(self._num_bytes, missing)), f"the cache {self._folder}"
            )
            files.make_folder(self._folder)
            total = sum(len(self._records(shard)) for shard in missing)
            with Progress(f"computing features of {name}", total, "records") as progress:
                for shard in missing:
                    values = self._compute(shard, compute, progress.update)
                    with files.atomic_replace(self._path(shard)) as temporary:
                        with open(temporary, "wb") as file:
                            np.save(file, values)
                        checksum = files.sha256_of_file(temporary)
                    checksums[os.path.basename(self._path(shard))] = checksum
                    facts = {"key": dict(key), "sha256": checksums}
                    files.write_json(os.path.join(self._folder, _FACTS_FILE), facts)
        self._arrays = [np.load(self._path(n), mmap_mode="r") for n in range(len(self))]

    def _check(self, key: Mapping[str, Any]) -> dict[str, str]:
        """Returns the checksums of the complete shards, by file name."""
        path = os.path.join(self._folder, _FACTS_FILE)
        if not os.path.exists(path):
            return {}
        facts = files.read_json(path)
        if difference := first_difference(facts["key"], key):
            name, old, new = difference
            raise InputError(
                f"{self._folder} is a cache with {name}={old!r}, but this run has {name}={new!r}. "
                "Give another feature_cache_dir, or remove the folder."
            )
        for name, checksum in facts["sha256"].items():
            shard = os.path.join(self._folder, name)
            if not os.path.exists(shard) or files.sha256_of_file(shard) != checksum:
                raise InputError(
                    f"{shard} is incomplete or damaged. Remove the folder {self._folder}; the same "
                    "command then computes it again."
                )
        return dict(facts["sha256"])

    def _compute(
        self,
        shard: int,
        compute: Callable[[np.ndarray], np.ndarray],
        update: Callable[[int], None],
    ) -> np.ndarray:
        """Returns the vectors of the records of a shard, one after the other: [sum of T, K, H]."""
        records = self._records(shard)
        values: np.ndarray = np.empty([self._lengths[records].sum(), *self._shape], self._dtype)
        # Batches of similar lengths need little padding.
        by_length = records[np.argsort(self._lengths[records], kind="stable")]
        for batch in _split(by_length, _RECORDS_PER_BATCH):
            for record, vectors in zip(batch, compute(batch), strict=True):
                start, length = self._starts[record], self._lengths[record]
                values[start : start + length] = vectors[:length]
            update(len(batch))
        return values

    def read(self, records: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the hidden states of records, padded with 0.

        Args:
            records: Indices of records, int64 [B].

        Returns:
            Float [B, T, K, H], where T is the largest length; and the lengths, int32 [B].
        """
        lengths = self._lengths[records]
        values: np.ndarray = np.zeros([len(records), lengths.max(), *self._shape], self._dtype)
        places = zip(self._shard_of[records], self._starts[records], lengths, strict=True)
        for row, (shard, start, length) in zip(values, places, strict=True):
            row[:length] = self._arrays[shard][start : start + length]
        return values, lengths.astype(np.int32)

    def tensors(self, records: Any, length: Any) -> dict[str, Any]:
        """Returns the features `CACHED_FEATURES` and `CACHED_MASK` of a batch.

        Args:
            records: Indices of records, int64 [B].
            length: The number of tokens to which the sequences of the batch are padded.

        Returns:
            float32 [B, T, K, H] and int32 [B, T]. T is `length`, or 1 if the cache has one vector
            for each record.
        """
        values, lengths = tf.numpy_function(self.read, [records], [self._dtype, tf.int32])
        values = tf.ensure_shape(values, [*records.shape, None, *self._shape])
        lengths = tf.ensure_shape(lengths, records.shape)
        size = 1 if self._lengths.max() == 1 else length
        missing = size - tf.shape(values)[1]
        values = tf.pad(tf.cast(values, tf.float32), [[0, 0], [0, missing], [0, 0], [0, 0]])
        return {CACHED_FEATURES: values, CACHED_MASK: tf.sequence_mask(lengths, size, tf.int32)}


def write(
    settings: FeatureSettings,
    name: str,
    records: RecordFile,
    model: Any,
    load: Callable[[Any], dict[str, Any]],
    key: Mapping[str, Any],
) -> FeatureCache:
    """Returns the cache of a split, after it computed the missing parts.

    Args:
        settings: The place and the dtype of the cache.
        name: The name of the split.
        records: The records of the split.
        model: A `BertHeadModel` whose encoder has its final weights.
        load: Converts indices of records to a batch; see `batches.make_loader`.
        key: JSON values that identify the records and the precision.

    Raises:
        InputError: See `FeatureCache.write`.
    """
    numbers = model.head_config.states(model.config.num_hidden_layers)
    pools = model.head_layers.pools_states
    folder = "-".join([name, *map(str, numbers), *(["mean"] if pools else [])])
    lengths = records.index.num_tokens
    cache = FeatureCache(
        os.path.join(settings.folder, folder),
        np.ones_like(lengths) if pools else lengths,
        (len(numbers), model.config.hidden_size),
        settings.dtype,
    )
    key = {
        **key, "dtype": settings.dtype, "hidden_states": list(numbers), "mean": pools,
        "encoder_sha256": _encoder_sha256(model),
    }  # fmt: skip
    features = tf.function(
        lambda indices: tf.cast(model.features(load(indices)), tf.float32),
        input_signature=[tf.TensorSpec([None], tf.int64)], autograph=False,
    )  # fmt: skip
    cache.write(key, lambda indices: features(tf.constant(indices, tf.int64)).numpy(), name)
    return cache


def _encoder_sha256(model: Any) -> str:
    """Returns a checksum of the weights of the encoder and of its architecture."""
    config = sorted(model.config.to_dict().items())
    parts = [files.sha256(repr(config).encode())]
    for name, variable in model.bert.variables_by_name().items():
        array = np.asarray(tf.convert_to_tensor(variable.value), np.float32)
        parts.append(f"{name} {files.sha256(array.tobytes())}")
    return files.sha256("\n".join(parts).encode())


def _split(records: np.ndarray, size: int) -> Iterator[np.ndarray]:
    for start in range(0, len(records), size):
        yield records[start : start + size]
