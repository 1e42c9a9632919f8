"""`RunData`: the splits that a run needs, their record files, the numbers of steps."""

import dataclasses
import functools
import itertools
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bert_tf.errors import InputError
from bert_tf.runs import record_files
from bert_tf.runs.class_weights import check_labels, weights_of_label_ids
from bert_tf.runs.fine_tuning_config import FineTuningConfig
from bert_tf.runs.record_files import WITHOUT_LABELS, RecordFile
from bert_tf.storage.files import temporary_folder
from bert_tf.storage.overwrite_rule import check_is_not_input
from bert_tf.tasks.splits import KINDS, DataLocation, RowCounts, Split
from bert_tf.tasks.task import TRUNCATED, Encoded, Task
from bert_tf.tokenization import BertTokenizer
from bert_tf.tokenization.vocabulary import count_unknown, unknown_warning
from bert_tf.training.training_config import RunPhases

_LOGGER = logging.getLogger(__name__)
# Two entries of `RecordIndex.counts`, which are not examples.
_UNKNOWN = "[UNK]"
_TOKENS = "tokens"
_RECORD_FILES = {"train": "train", "dev": "eval", "test": "predict"}


@dataclasses.dataclass(frozen=True, slots=True)
class _Unlabelled:
    """An example of the train split whose label is not used."""

    example: Any


@dataclasses.dataclass
class SplitData:
    """A split whose examples have been read.

    Attributes:
        key: Values that identify the content of the split's records.
        counts: The counts that `RunData.report` logs; empty after it has logged them,
            or if the records existed already.
    """

    split: Split
    key: Mapping[str, Any]
    records: RecordFile
    counts: RowCounts

    @property
    def num_examples(self) -> int:
        """The number of examples."""
        return self.records.index.num_examples


@dataclasses.dataclass
class RunData:
    """The splits that the phases of a run need.

    `read` reads the examples of each split once, and holds none of them in memory.
    Their records stay in a temporary folder until `write_all_records` moves them, so
    that a malformed file causes an error before anything in `folder` changes.

    Attributes:
        folder: The folder for the record files. A complete record file in it with the
            same content is used again, and its split is not read.
        unlabelled_file: See `DistillationConfig`; its examples are the last ones of the
            train split.
        splits: After `read`, the splits of each kind, by kind.
        label_weights: After `read`, see `class_weights.weights_of_label_ids`; None
            without class weights or training.
    """

    task: Task
    location: DataLocation
    tokenizer: BertTokenizer
    config: FineTuningConfig
    phases: RunPhases
    folder: str
    unlabelled_file: str | None = None

    def read(self) -> "RunData":
        """Reads the splits, and returns this object.

        Raises:
            InputError: A data file is missing or malformed or has the name of an output
                file, a split is empty, the class weights do not fit the task, or the
                temporary folder is full.
        """
        task = self.task
        self._temporary = temporary_folder("bert_tf-records-")
        weights = self.config.class_weights if self.phases.train else None
        if weights is not None:
            check_labels(task, weights)

        # The files of all splits are found before the first one is read.
        splits_of_kind = {
            kind: [
                dataclasses.replace(each, limit=self.location.limit(kind))
                for each in task.splits(kind, self.location)
            ]
            if kind in self.phases.kinds
            else []
            for kind in KINDS
        }
        all_splits = [split for splits in splits_of_kind.values() for split in splits]
        self._unlabelled = None
        if self.unlabelled_file:
            self._unlabelled = self._find_unlabelled(self.unlabelled_file)
        for each in filter(None, [*all_splits, self._unlabelled]):
            check_is_not_input(each.source.name, self.folder, task.output_files)

        # A split that is evaluated and predicted is read once.
        self._fingerprints = {
            each.name: each.source.fingerprint() for each in all_splits
        }
        read = {split: self._read_split(split) for split in dict.fromkeys(all_splits)}
        self.splits = {
            kind: [read[split] for split in splits_of_kind[kind]] for kind in KINDS
        }

        self.label_weights = None
        if weights is not None:
            train = self.splits["train"][0]
            self.label_weights = weights_of_label_ids(
                task, weights, train.records, self.sizes(train.split)
            )
        return self

    def sizes(self, split: Split) -> dict[str, int]:
        """Returns the size for each shape letter of the features of a record, such as "S"."""
        sizes = self.task.for_split(split).sizes
        return {**sizes, "S": self.config.max_seq_length}

    def fingerprint(self, kind: str = "train") -> Any:
        """Returns JSON values that identify the first split of a kind, or None."""
        return self.splits[kind][0].key["source"] if self.splits[kind] else None

    def warn_about_equal_sources(self) -> None:
        """Warns of each dev or test split that has the same content as the train split."""
        (train,) = (data.split for data in self.splits["train"])
        for data in self.splits["dev"] + self.splits["test"]:
            split = data.split
            if self._fingerprints[split.name] == self._fingerprints[train.name]:
                _LOGGER.warning(
                    "warning: %s and %s have the same content, so the results on the "
                    "%s split do not show how good the model is on new examples.",
                    train.source.name,
                    split.source.name,
                    split.name,
                )

    def num_steps(self, global_batch_size: int) -> tuple[int, int]:
        """Returns the numbers of steps and warm-up steps, rounded as in google-research/bert."""
        if not self.splits["train"]:
            return 1, 0
        split = self.splits["train"][0]
        epochs = self.config.num_train_epochs
        count = (
            len(split.records) if self.task.epochs_count_records else split.num_examples
        )
        steps = int(count / global_batch_size * epochs)
        if steps < 1:
            raise InputError(
                f"{count} training examples in {epochs} epochs do not fill one batch "
                f"of {global_batch_size}. Give a smaller global_batch_size."
            )
        return steps, int(steps * self.config.warmup_proportion)

    def report(self) -> None:
        """Logs the counts of each split that was read, once."""
        for data in self._all_splits():
            if data.counts:
                _report(data)
                data.counts = RowCounts()

    def write_all_records(self) -> None:
        """Moves the records of all splits to the folder, unless it contains them."""
        self.report()
        for data in self._all_splits():
            path = self._path(data.split)
            if data.records.path == path:
                continue
            # Another process of the run may have written it meanwhile.
            if index := record_files.read_index(path, data.key):
                data.records = RecordFile(path, index)
            else:
                data.records = record_files.move(data.records, path)
        self._temporary.cleanup()

    @property
    def notes(self) -> dict[str, Mapping[str, Sequence[str]]]:
        """The notes about the data of each split; see `RowCounts.notes`."""
        return {
            f"{data.split.name}_data": data.records.index.notes
            for data in self._all_splits()
        }

    def _all_splits(self) -> Iterator[SplitData]:
        return itertools.chain(*self.splits.values())

    def report_warnings(self) -> None:
        """Logs the warnings about all splits, also if an earlier run has read the split."""
        for notes in self.notes.values():
            _warn(notes)

    def _training_examples(self, split: Split, counts: RowCounts) -> Iterator[Any]:
        """Yields the examples of a split; those of `unlabelled_file` follow the train split."""
        for example in self.task.read(split, counts):
            counts.num_read += 1
            yield example
        counts.check(_description(split), self.location.allow_skipped)

        if split.kind == "train" and self._unlabelled:
            yield from map(_Unlabelled, self.task.read(self._unlabelled, counts))

    def _encode(self, split: Split, examples: Sequence[Any]) -> Encoded:
        """Converts a block of examples to records, and counts their tokens."""
        unlabelled = sum(isinstance(example, _Unlabelled) for example in examples)
        examples = [
            example.example if isinstance(example, _Unlabelled) else example
            for example in examples
        ]

        task = self.task.for_split(split)
        tokenizer = self.tokenizer
        encoded = task.encode(examples, tokenizer, self.config.max_seq_length)

        # Counts for the report.
        special = (tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id)
        ids = encoded.columns["input_ids"]
        unknown, total = count_unknown(ids, tokenizer.unk_id, special)
        counts = {**encoded.counts, _UNKNOWN: unknown, _TOKENS: total}
        if unlabelled:
            counts[WITHOUT_LABELS] = unlabelled
        return dataclasses.replace(encoded, counts=counts)

    def _read_split(self, split: Split) -> SplitData:
        """Returns a split; unless the folder has its records, writes them to a temporary folder."""
        key = self._key(split)
        path = self._path(split)
        index = record_files.read_index(path, key)
        if index is not None:
            _warn_about_unknown(split, index.counts)
            return SplitData(split, key, RecordFile(path, index), RowCounts())

        # Threads encode the examples while they are read.
        counts = RowCounts()
        temporary = os.path.join(self._temporary.name, os.path.basename(path))
        records = record_files.write(
            temporary,
            self._training_examples(split, counts),
            encode=functools.partial(self._encode, split),
            table=self.task.for_split(split).table,
            key=key,
            notes=counts.notes,
        )

        if not records.index.num_examples:
            skipped = "".join(
                f" ({count:,} {reason})" for reason, count in counts.items()
            )
            raise InputError(
                f"The {split.name} split in {split.source.name} has no "
                f"examples{skipped}. Give a file with at least one example."
            )
        counts.update(records.index.counts)
        return SplitData(split, key, records, counts)

    def _key(self, split: Split) -> dict[str, Any]:
        """Returns the values that identify the records of a split."""
        source = {"content": self._fingerprints[split.name], "limit": split.limit}
        if split.kind == "train" and self._unlabelled:
            source["unlabelled_file"] = self._unlabelled.source.fingerprint()

        return {
            "source": source,
            "split": split.name,
            "task": self.task.facts.of_records(),
            "features": [
                [feature.name, feature.dtype, list(feature.shape)]
                for feature in self.task.for_split(split).table
            ],
            "max_seq_length": self.config.max_seq_length,
            "vocabulary_sha256": self.tokenizer.vocabulary_sha256,
            "do_lower_case": self.tokenizer.do_lower_case,
        }

    def _path(self, split: Split) -> str:
        name = split.with_suffix(_RECORD_FILES[split.kind])
        return os.path.join(self.folder, f"{name}.tf_record")

    def _find_unlabelled(self, path: str) -> Split:
        """Returns `unlabelled_file` as a test split, because test splits need no labels."""
        location = dataclasses.replace(self.location, test_file=path, test_fraction=0.0)
        split, *_ = self.task.splits("test", location)
        return dataclasses.replace(split, kind="test", suffix="")


def _report(data: SplitData) -> None:
    """Logs the numbers of examples and unusual examples, and the share of unknown tokens."""
    counts, total = data.counts, data.counts.get(_TOKENS, 0)
    parts = [f"{data.num_examples:,} examples"]
    parts += [
        f"{n:,} {reason}"
        for reason, n in counts.items()
        if n and reason not in (_UNKNOWN, _TOKENS)
    ]
    if cut := counts.get(TRUNCATED):
        parts.append(f"{cut / data.num_examples:.1%} of the examples are truncated")
    if total:
        parts.append(f"{counts[_UNKNOWN] / total:.2%} of {total:,} tokens are [UNK]")

    name = _description(data.split)
    _LOGGER.info("%s: %s.", name, ", ".join(parts))
    for line in counts.notes["first"] + counts.notes["read"]:
        _LOGGER.info("%s: %s", name, line)
    _warn(counts.notes)
    _warn_about_unknown(data.split, counts)


def _warn(notes: Mapping[str, Sequence[str]]) -> None:
    for warning in notes.get("warnings", ()):
        _LOGGER.warning("warning: %s", warning)


def _warn_about_unknown(split: Split, counts: Mapping[str, int]) -> None:
    unknown = counts.get(_UNKNOWN, 0)
    total = counts.get(_TOKENS, 0)
    if warning := unknown_warning(unknown, total, f"tokens of {_description(split)}"):
        _LOGGER.warning("warning: %s", warning)


def _description(split: Split) -> str:
    return f"{split.name} ({split.source.name})"
