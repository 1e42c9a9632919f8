"""`FeatureCache`: outputs of a frozen encoder or a teacher for each record, on disk.

The logits of a teacher are cached in the same way; see `distillation`. A cache is a
folder with `cache.json` and arrays in .npy files (shards). It is written once, before
the training, and read at random positions.

Shape letters: R records, B batch, T tokens of a record, K hidden states of a token, H
hidden size.
"""

import functools
import json
import math
import os
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.errors import InputError
from bert_tf.progress import Progress
from bert_tf.runs.batches import ToBatch, compiled_forward, make_loader
from bert_tf.runs.evaluation import SplitEvaluator
from bert_tf.runs.fine_tuning_config import FeatureSettings
from bert_tf.runs.record_files import Facts, check_disk_space
from bert_tf.runs.run_data import SplitData
from bert_tf.storage import files, integrity, json_files
from bert_tf.storage.workspace import Workspace
from bert_tf.tasks.task import CACHED_FEATURES
from bert_tf.training.trainer import Trainer
from bert_tf.training.training_config import first_difference

_SHARD_BYTES = 64 << 20
_OPEN_SHARDS = 128
_RECORDS_PER_BATCH = 32
_FACTS_FILE = "cache.json"
_LOCK_FILE = "cache.lock"


class FeatureCache:
    """A folder with the hidden states, or the teacher's logits, of each record.

    A record has T arrays of the `shape` (K, H); `lengths` has T for each record: int
    [R]. The JSON values in `key` identify the content.
    """

    def __init__(
        self,
        folder: str,
        lengths: np.ndarray,
        shape: tuple[int, int],
        dtype: str,
        key: Facts,
    ) -> None:
        self.folder = folder
        self._shape = shape
        self._dtype = np.dtype(dtype)
        self._key = json.loads(json.dumps(key))
        self._lengths: np.ndarray = lengths.astype(np.int64)

        # The first record of each shard, the shard of each record, and the position of
        # its first vector in the shard.
        ends = np.cumsum(self._lengths)
        per_shard = max(_SHARD_BYTES // (shape[0] * shape[1] * self._dtype.itemsize), 1)
        starts = ends - self._lengths
        firsts = np.flatnonzero(np.diff(starts // per_shard, prepend=-1))
        self._shard_of = np.searchsorted(firsts, np.arange(len(ends)), side="right") - 1
        self._starts = starts - starts[firsts][self._shard_of]
        self._bounds: np.ndarray = np.append(firsts, len(ends))
        self._shards = range(len(firsts))

        self._workspace = Workspace(folder, "cache", "feature_cache_dir", _LOCK_FILE)
        # A process can open about 1,000 files at a time.
        self._array = functools.lru_cache(_OPEN_SHARDS)(
            lambda shard: np.load(os.path.join(folder, _name(shard)), mmap_mode="r")
        )

    def _records(self, shard: int) -> np.ndarray:
        return np.arange(self._bounds[shard], self._bounds[shard + 1])

    def write(self, compute: Callable[[np.ndarray], Any], name: str) -> None:
        """Computes and writes missing shards; waits first if another run is doing so.

        `compute` takes the indices of records, int64 [B], and returns float [B, T, K,
        H], where T is at least the largest length of these records.

        Raises:
            InputError: The folder contains the cache of other data or another encoder,
                a shard is damaged, the disk is full, or a hidden state is not finite.
        """
        with self._workspace.locked(f"Another run computes {self.folder}.", wait=True):
            # The shards that another run, or an earlier one, has not completed.
            checksums = self._checksums()
            missing = [shard for shard in self._shards if _name(shard) not in checksums]
            if not missing:
                return

            # The size of these shards, before any work is done.
            records = np.concatenate([self._records(shard) for shard in missing])
            num_values = int(self._lengths[records].sum()) * math.prod(self._shape)
            size = num_values * self._dtype.itemsize
            check_disk_space(self.folder, size, f"the cache {self.folder}")

            title = f"computing features of {name}"
            with Progress(title, len(records), "records") as progress:
                for shard in missing:
                    values = self._compute(shard, compute, progress.update)
                    path = os.path.join(self.folder, _name(shard))
                    with files.atomic_replace(path) as temporary:
                        with open(temporary, "wb") as file:
                            np.save(file, values)
                        checksums[_name(shard)] = files.sha256_of_file(temporary)
                    # A shard counts as complete when it is in this file.
                    facts = {"key": self._key, "sha256": checksums}
                    files.write_json(os.path.join(self.folder, _FACTS_FILE), facts)

    def _checksums(self) -> dict[str, str]:
        """Returns the checksums of the complete shards, by file name."""
        path = os.path.join(self.folder, _FACTS_FILE)
        if not os.path.exists(path):
            self._workspace.check_owned([_LOCK_FILE], map(_name, self._shards))
            return {}

        # The cache of other data, or of another encoder, is not replaced.
        facts = json_files.read(path, own=True)
        if difference := first_difference(facts["key"], self._key):
            name, old, new = difference
            raise InputError(
                f"{self.folder} is a cache with {name}={old!r}, but this run has "
                f"{name}={new!r}. Give another feature_cache_dir, or remove the folder."
            )

        checksums = {
            name: sha256
            for name, sha256 in facts["sha256"].items()
            if os.path.exists(os.path.join(self.folder, name))
        }
        for shard in integrity.changed_files(self.folder, checksums):
            raise InputError(
                f"{shard} is incomplete or damaged. Remove this file; the same command "
                "then computes it again."
            )
        return checksums

    def _compute(
        self,
        shard: int,
        compute: Callable[[np.ndarray], Any],
        update: Callable[[int], None],
    ) -> np.ndarray:
        """Returns the vectors of all records of a shard: [sum of T, K, H]."""
        records = self._records(shard)
        values: np.ndarray = np.empty(
            [self._lengths[records].sum(), *self._shape], self._dtype
        )

        # Batches of similar lengths need little padding.
        by_length = records[np.argsort(self._lengths[records], kind="stable")]
        for first in range(0, len(by_length), _RECORDS_PER_BATCH):
            batch = by_length[first : first + _RECORDS_PER_BATCH]
            with np.errstate(over="ignore"):  # reported below
                for record, vectors in zip(
                    batch, np.asarray(compute(batch)), strict=True
                ):
                    start = self._starts[record]
                    length = self._lengths[record]
                    values[start : start + length] = vectors[:length]
            update(len(batch))

        if not np.isfinite(values).all():
            raise InputError(
                f"Hidden states of the encoder are not finite in {self._dtype}. Give "
                "feature_dtype=float32, or check the checkpoint."
            )
        return values

    def read(self, records: np.ndarray, length: int) -> np.ndarray:
        """Returns the vectors of records, padded with 0: float32 [B, length, K, H].

        `records` has indices, int64 [B]. No record has more than `length` vectors.
        """
        values: np.ndarray = np.zeros([len(records), length, *self._shape], np.float32)
        positions = zip(
            self._shard_of[records],
            self._starts[records],
            self._lengths[records],
            strict=True,
        )
        for row, (shard, start, count) in zip(values, positions, strict=True):
            row[:count] = self._array(int(shard))[start : start + count]
        return values

    def tensors(self, records: Any, length: Any) -> tuple[Any, Any]:
        """Returns the vectors of records, padded with 0, and their mask.

        They are float32 [B, T, K, H] and int32 [B, T], where T is `length`, or 1 if the
        cache has one vector for each record. `records` has indices, int64 [B].
        """
        size = 1 if self._lengths.max() == 1 else length
        values = tf.numpy_function(self.read, [records, size], tf.float32)
        mask = tf.sequence_mask(tf.gather(self._lengths, records), size, tf.int32)
        return tf.ensure_shape(values, [*records.shape, None, *self._shape]), mask


def _name(shard: int) -> str:
    return f"shard-{shard:05d}.npy"


def freeze_encoder(model: Any) -> None:
    """Excludes the encoder of a `BertHeadModel` from training."""
    model.bert.trainable = False


def cache_features(
    settings: FeatureSettings,
    evaluator: SplitEvaluator,
    trainer: Trainer[Any],
    first_step: int,
) -> None:
    """Caches the hidden states of a frozen encoder that steps from `first_step` on need.

    The caches are added to `RecordFile.caches` of the splits. The encoder must have its
    final weights.
    """
    # If all steps are done, the hidden states of the train split are not needed.
    splits = evaluator.data.splits
    needed = [*splits["dev"]]
    if first_step < trainer.training.num_train_steps:
        needed += splits["train"]

    # The layers that the head reads, or their mean over the tokens; a part of the name,
    # because runs with other heads can share the folder.
    model = trainer.objective.model
    numbers = model.head_config.states(model.config.num_hidden_layers)
    pools = model.head_layers.pools_states
    layers = [*map(str, numbers), *(["mean"] if pools else [])]

    with trainer.chief_first():
        key = {
            "precision": trainer.training.precision,
            "encoder_sha256": sha256_of_weights(
                model.config, model.bert.variables_by_name()
            ),
            "hidden_states": numbers,
            "mean": pools,
        }
        for split in needed:
            split.records.caches[CACHED_FEATURES] = cache_outputs(
                settings,
                "-".join([split.split.name, *layers]),
                title=split.split.name,
                outputs=model.features,
                variables=trainer.objective.variables,
                split=split,
                parse=evaluator.parser(split.split),
                key=key,
                shape=(1 if pools else None, len(numbers), model.config.hidden_size),
            )


def cache_outputs(
    settings: FeatureSettings,
    name: str,
    title: str,
    outputs: Callable[[Any], Any],
    variables: Mapping[str, Any],
    split: SplitData,
    parse: ToBatch,
    key: Facts,
    shape: Any = None,
) -> FeatureCache:
    """Computes the missing part of a cache of outputs of a model, and returns it.

    Args:
        name: The name of the cache's folder.
        outputs: Converts a batch to float [B, T, K, H].
        variables: The variables of the model, by name.
        key: JSON values that identify the model.
        shape: (T, K, H), where T is 1 if the outputs have one vector for each record,
            else None. Without `shape`, the shape is that of the outputs, whose graph is
            then computed for one record even if the cache is complete.
    """
    load = make_loader(split.records, parse)
    forward = compiled_forward(lambda batch: {"": outputs(batch)}, variables, load)

    def compute(records: np.ndarray) -> np.ndarray:
        # JAX compiles a program for each number of records, so the number is constant.
        is_fixed = keras.backend.backend() == "jax"
        padded = np.resize(records, _RECORDS_PER_BATCH) if is_fixed else records
        return np.asarray(forward(load(padded))[""], np.float32)[: len(records)]

    # A record has at least two tokens, so one vector belongs to the whole record.
    tokens, states, size = shape or compute(np.arange(1)).shape[1:]

    lengths = split.records.index.num_tokens
    cache = FeatureCache(
        os.path.join(settings.folder, name),
        np.ones_like(lengths) if tokens == 1 else lengths,
        shape=(states, size),
        dtype=settings.dtype,
        key={**split.key, **key, "dtype": settings.dtype},
    )
    cache.write(compute, title)
    return cache


def sha256_of_weights(config: BertConfig, variables: Mapping[str, Any]) -> str:
    """Returns a checksum of a model's weights, with their names, and architecture."""
    parts = [files.sha256(repr(sorted(config.to_dict().items())).encode())]
    for name, variable in variables.items():
        array = np.asarray(keras.ops.convert_to_numpy(variable), np.float32)
        parts.append(f"{name} {files.sha256(array.tobytes())}")
    return files.sha256("\n".join(parts).encode())
