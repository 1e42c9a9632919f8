"""`TaskData`: the splits of a task that a run needs, and their record files."""

import dataclasses
import logging
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bert_tf.errors import InputError
from bert_tf.progress import Progress
from bert_tf.tasks import record_files
from bert_tf.tasks.fine_tuning_config import FineTuningConfig
from bert_tf.tasks.record_files import RecordFile
from bert_tf.tasks.results import check_not_replaced
from bert_tf.tasks.splits import KINDS, DataLocation, Split
from bert_tf.tasks.task import Encoded, Task
from bert_tf.tokenization import BertTokenizer
from bert_tf.tokenization.unknown_share import count_unknown, unknown_warning
from bert_tf.training.config import RunPhases

_LOGGER = logging.getLogger(__name__)
_EXAMPLES_PER_UPDATE = 10_000
# Two entries of `RecordIndex.counts`, which are not examples.
_UNKNOWN, _TOKENS = "[UNK]", "tokens"
_RECORD_FILES = {"train": "train", "dev": "eval", "test": "predict"}


@dataclasses.dataclass(frozen=True)
class SplitData:
    """A split whose examples have been checked.

    Attributes:
        split: The split.
        num_examples: The number of examples.
        key: Values that identify the content of the split's records.
    """

    split: Split
    num_examples: int
    key: Mapping[str, Any]


class TaskData:
    """The splits that the phases of a run need.

    The constructor reads all examples once, and holds none of them in memory. It writes nothing, so
    that a malformed file causes an error without incomplete output.

    Args:
        task: The task.
        location: The place of the data set.
        tokenizer: Converts text to ids.
        config: The settings of fine-tuning.
        phases: The phases to run. Only the splits that these phases need are read.
        folder: The folder for the record files. A complete record file in it with the same content
            is used again.

    Attributes:
        task: The argument `task`.
        config: The argument `config`.
        splits: The splits of each kind, by kind.

    Raises:
        InputError: A data file is missing or malformed or has the name of an output file, or a
            split is empty.
    """

    def __init__(
        self,
        task: Task,
        location: DataLocation,
        tokenizer: BertTokenizer,
        config: FineTuningConfig,
        phases: RunPhases,
        folder: str,
    ) -> None:
        self.task, self.config = task, config
        self._location, self._tokenizer, self._folder = location, tokenizer, folder
        self._records: dict[str, RecordFile] = {}
        found = {kind: self._find_splits(kind) if kind in phases.kinds else [] for kind in KINDS}
        all_splits = [split for splits in found.values() for split in splits]
        for each in all_splits:
            check_not_replaced(each.source.name, folder, task.output_files)
        self._fingerprints = {each.name: each.source.fingerprint() for each in all_splits}
        checked = {split: self._check(split) for split in dict.fromkeys(all_splits)}
        self.splits = {kind: [checked[split] for split in found[kind]] for kind in KINDS}

    def fingerprint(self, kind: str = "train") -> Any:
        """Returns JSON values that identify the examples of the first split of a kind, or None."""
        return self.splits[kind][0].key["source"] if self.splits[kind] else None

    def warn_about_equal_sources(self, earlier: Any = None) -> None:
        """Logs a warning for each split with the content of the train split.

        Args:
            earlier: The `fingerprint` of the train split with which the model was trained, if this
                run does not train.
        """
        train = {self._fingerprints[each.split.name]: each.split for each in self.splits["train"]}
        names: dict[Any, str] = {key: split.source.name for key, split in train.items()}
        if isinstance(earlier, dict):
            names[earlier.get("content")] = "the file of the training"
        for split in (each.split for kind in ("dev", "test") for each in self.splits[kind]):
            name = names.get(self._fingerprints[split.name])
            if name is not None:
                _LOGGER.warning(
                    "warning: %s and %s have the same content, so the results on the %s split do "
                    "not show how good the model is on new examples.",
                    name, split.source.name, split.name,
                )  # fmt: skip

    def num_steps(self, global_batch_size: int) -> tuple[int, int]:
        """Returns the number of training steps and the number of warm-up steps.

        Both numbers are rounded as in google-research/bert.

        Raises:
            InputError: The examples of all epochs do not fill one batch.
        """
        if not self.splits["train"]:
            return 1, 0
        if global_batch_size < 1:
            raise InputError(
                f"global_batch_size must be at least 1. Received: {global_batch_size}."
            )
        count, epochs = self.splits["train"][0].num_examples, self.config.num_train_epochs
        count = round(count * self.task.records_per_example)
        steps = int(count / global_batch_size * epochs)
        if steps < 1:
            raise InputError(
                f"{count} training examples in {epochs} epochs do not fill one batch of "
                f"{global_batch_size}. Give a smaller global_batch_size."
            )
        return steps, int(steps * self.config.warmup_proportion)

    def write_all_records(self) -> None:
        """Writes the records of all splits, except those that exist already.

        Raises:
            InputError: A file cannot be written.
        """
        for splits in self.splits.values():
            for data in splits:
                self.records(data)

    def records(self, data: SplitData) -> RecordFile:
        """Returns the record file of a split; writes it if it does not exist.

        Raises:
            InputError: The file cannot be written.
        """
        split = data.split
        if split.name not in self._records:
            path = self._path(split)
            index = record_files.read_index(path, data.key)
            self._records[split.name] = (
                RecordFile(path, index) if index else self._write(path, data)
            )
        return self._records[split.name]

    def examples(self, split: Split, counts: Counter[str] | None = None) -> Iterator[Any]:
        """Yields the examples of a split. `counts` receives the number of unusual rows."""
        return self.task.read(split, Counter() if counts is None else counts)

    def _write(self, path: str, data: SplitData) -> RecordFile:
        records = record_files.write(
            path, self.examples(data.split), data.num_examples, self._encode, self.task.table,
            data.key,
        )  # fmt: skip
        check_same_number(data, records.index.num_examples)
        _report(f"{data.split.name} ({data.split.source.name})", records.index.counts)
        return records

    def _encode(self, examples: Sequence[Any]) -> Encoded:
        """Converts a block of examples to records, and counts their tokens and unknown tokens."""
        tokenizer = self._tokenizer
        encoded = self.task.encode(examples, tokenizer, self.config.max_seq_length)
        special = (tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id)
        ids = encoded.columns["input_ids"]
        unknown, total = count_unknown(ids, tokenizer.unk_id, special)
        counts = {**encoded.counts, _UNKNOWN: unknown, _TOKENS: total}
        return dataclasses.replace(encoded, counts=counts)

    def _check(self, split: Split) -> SplitData:
        key, path = self._key(split), self._path(split)
        index = record_files.read_index(path, key)
        if index is not None:
            # The examples were checked when the record file was written.
            self._records[split.name] = RecordFile(path, index)
            _warn_about_unknown(f"{split.name} ({split.source.name})", index.counts)
            return SplitData(split, index.num_examples, key)
        counts: Counter[str] = Counter()
        number = 0
        with Progress(f"checking {split.name}", None, "examples", log_end=False) as progress:
            for number, _ in enumerate(self.examples(split, counts), start=1):
                if number % _EXAMPLES_PER_UPDATE == 0:
                    progress.update(_EXAMPLES_PER_UPDATE)
            progress.update(number % _EXAMPLES_PER_UPDATE)
        if not number:
            skipped = "".join(f" ({count:,} {reason})" for reason, count in counts.items())
            raise InputError(
                f"The {split.name} split in {split.source.name} has no examples{skipped}. Give a "
                "file with at least one example."
            )
        _report(f"{split.name} ({split.source.name})", counts)
        return SplitData(split, number, key)

    def _key(self, split: Split) -> dict[str, Any]:
        return {
            "source": {"content": self._fingerprints[split.name], "limit": split.limit},
            "split": split.name,
            "task": self.task.facts.of_records(),
            "features": [[each.name, each.dtype, list(each.shape)] for each in self.task.table],
            "max_seq_length": self.config.max_seq_length,
            "vocabulary_sha256": self._tokenizer.vocabulary_sha256,
            "do_lower_case": self._tokenizer.do_lower_case,
        }

    def _path(self, split: Split) -> str:
        name = split.with_suffix(_RECORD_FILES[split.kind])
        return os.path.join(self._folder, f"{name}.tf_record")

    def _find_splits(self, kind: str) -> list[Split]:
        splits = self.task.splits(kind, self._location)
        return [dataclasses.replace(each, limit=self._location.limit(kind)) for each in splits]


def check_same_number(data: SplitData, examples: int) -> None:
    """Checks that a split still has the number of examples that it had at the start of the run.

    Raises:
        InputError: The numbers differ.
    """
    if examples != data.num_examples:
        raise InputError(
            f"{data.split.source.name} had {data.num_examples} examples at the start of this run "
            f"and has {examples} now. Run the command again, without changing the file meanwhile."
        )


def _report(name: str, counts: Mapping[str, int]) -> None:
    """Logs the counts of unusual examples and, if they are known, of unknown tokens."""
    own = (_UNKNOWN, _TOKENS)
    parts = [f"{n:,} {reason}" for reason, n in counts.items() if n and reason not in own]
    if total := counts.get(_TOKENS, 0):
        parts.append(f"{counts[_UNKNOWN] / total:.2%} of {total:,} tokens are [UNK]")
    if parts:
        _LOGGER.info("%s: %s.", name, ", ".join(parts))
    _warn_about_unknown(name, counts)


def _warn_about_unknown(name: str, counts: Mapping[str, int]) -> None:
    unknown, total = counts.get(_UNKNOWN, 0), counts.get(_TOKENS, 0)
    if warning := unknown_warning(unknown, total, f"tokens of {name}"):
        _LOGGER.warning("warning: %s", warning)
