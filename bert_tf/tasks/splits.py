"""The location of a data set, its splits, and the counts of their unusual rows."""

import dataclasses
import hashlib
import os
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.config_fields import documented, option
from bert_tf.errors import (
    InputError,
    Path,
    check_at_least,
    shortened,
    store_plain_values,
)
from bert_tf.storage import files
from bert_tf.tasks.tables import ENDINGS, TableFormat

KINDS = ("train", "dev", "test")
# The names of split files without their endings, by kind.
SPLIT_NAMES = {"train": ("train",), "dev": ("dev", "validation"), "test": ("test",)}
# A split with a larger share of skipped rows gives a warning (the first constant), or
# stops the run (the second constant).
_WARNING_SHARE = 0.1
_MAX_SHARE = 0.5
# The reason under which a train or dev split counts examples without a known label.
WITHOUT_LABEL = "examples without a label skipped"
_SHOWN_LABELS = 20


@documented
@dataclasses.dataclass(frozen=True)
class DataLocation:
    """The location of a data set, where a task finds its splits."""

    data_dir: Path | None = option(
        None,
        "Folder with the files of the task, with conventional names.",
        is_path=True,
    )
    train_file: Path | None = option(
        None, "File to train on instead of the train file in `data_dir`.", is_path=True
    )
    dev_file: Path | None = option(
        None, "File to evaluate on instead of the dev file in `data_dir`.", is_path=True
    )
    test_file: Path | None = option(
        None, "File to predict instead of the test file in `data_dir`.", is_path=True
    )
    tfds_name: str | None = option(
        None, "Data set of tensorflow-datasets instead of files, such as glue/mrpc."
    )
    tfds_data_dir: Path | None = option(
        None,
        "Folder of the data sets of tensorflow-datasets, if it is not the default.",
        is_path=True,
    )
    eval_fraction: float = option(
        0.0,
        "For the user's own tables: this share of the texts in the train file is the "
        "dev split, by a hash of the text, so that equal texts are in one split.",
    )
    test_fraction: float = option(0.0, "The same for the test split.")
    max_train_examples: int = option(
        0, "Use only the first examples of the train split; 0 means all."
    )
    max_eval_examples: int = option(
        0, "Use only the first examples of each other split; 0 means all."
    )
    table_format: TableFormat = option(
        TableFormat(), "The form of the user's own tables."
    )
    allow_skipped: bool = option(
        False,
        "Whether more than half of the rows of a split may be skipped because they "
        "cannot be used. Otherwise, the run then stops.",
    )

    def __post_init__(self) -> None:
        store_plain_values(self)
        check_at_least(0, self, "max_train_examples", "max_eval_examples")
        dev, test = self.eval_fraction, self.test_fraction
        if not (min(dev, test) >= 0 and dev + test < 1):
            raise InputError(
                "eval_fraction and test_fraction must be at least 0, and less than 1 "
                f"together. Received: {dev} and {test}."
            )

        # A share of the train file cannot be a split that has a file of its own.
        for name, file in (
            ("eval_fraction", "dev_file"),
            ("test_fraction", "test_file"),
        ):
            other = "tfds_name" if self.tfds_name else file
            if getattr(self, name) and getattr(self, other):
                raise InputError(
                    f"{name} and {other} give the same split. Give one of them."
                )

    def explicit_file(self, kind: str) -> str | None:
        """Returns `train_file`, `dev_file` or `test_file`, by kind; None if it is not given."""
        return getattr(self, f"{kind}_file")

    def limit(self, kind: str) -> int:
        """Returns the maximum number of examples of a kind of split; 0 for all."""
        return self.max_train_examples if kind == "train" else self.max_eval_examples

    def part(self, kind: str) -> tuple[float, float] | None:
        """Returns the range [first, last) of the `share_of` values of a split's texts.

        With `eval_fraction=0.1`, the dev split is (0.0, 0.1), and the train split is
        (0.1, 1.0). Returns None if the train file is not divided, or if the split has
        its own file.
        """
        dev, test = self.eval_fraction, 1 - self.test_fraction
        limits = {"dev": (0.0, dev), "test": (test, 1.0), "train": (dev, test)}
        first, last = limits[kind]
        return (first, last) if 0 < last - first < 1 else None

    def find_table(
        self,
        kind: str,
        split_names: Mapping[str, Sequence[str]] = SPLIT_NAMES,
        endings: Sequence[str] = ENDINGS,
    ) -> str:
        """Returns the path of a split: the explicit or the conventionally named file.

        Args:
            kind: One of `KINDS`.
            split_names: The conventional names without the ending, by kind.
            endings: The endings of these names; "" stands for no ending. If
                `input_format` is not "auto", the endings .txt and .json are added.

        Raises:
            InputError: There is no such file, or there are several files.
        """
        if self.table_format.input_format != "auto":
            endings = (*endings, ".txt", ".json")
        names = [f"{name}{ending}" for name in split_names[kind] for ending in endings]
        return self.find_file(kind, names, only_one=True)

    def find_file(self, kind: str, names: Sequence[str], only_one: bool = False) -> str:
        """Returns the path of a split: the explicit file, or a file in `data_dir`.

        Args:
            kind: One of `KINDS`.
            names: Paths relative to `data_dir`, which also match with .gz at the end
                (gzip). The first one that exists is returned.
            only_one: Whether several existing files with these names raise an error.

        Raises:
            InputError: There is no such file, or there are several files.
        """
        explicit = self.explicit_file(kind)
        if explicit:
            if not files.exists(explicit):
                raise InputError(
                    f"There is no file {explicit}. Give an existing {kind} file."
                )
            return explicit

        # The files of the folder with one of the names.
        folder = self.data_dir
        if not folder:
            raise InputError(
                f"There is no {kind} data. Give data_dir, or a {kind} file."
            )
        existing = [
            file
            for name in names
            for file in (name, f"{name}.gz")
            if files.is_file(os.path.join(folder, file))
        ]

        if not existing:
            others = f", nor {', '.join(names[1:])}" if names[1:] else ""
            raise InputError(
                f"There is no file {names[0]} in {folder}{others}. Give one of these "
                f"files, or give the file as {kind}_file."
            )
        if only_one and len({name.removesuffix(".gz") for name in existing}) > 1:
            raise InputError(
                f"{folder} has several {kind} files: {', '.join(existing)}. Remove all "
                f"but one of them, or give the file as {kind}_file."
            )
        return os.path.join(folder, existing[0])


@dataclasses.dataclass(frozen=True)
class FileSource:
    """A file, or a part of it, as the source of a split.

    Attributes:
        name: The path of the file.
        selection: The settings that select what is read, such as the names of columns.
        part: The texts that are read: a range [first, last) of `share_of`; None for
            all.
        table_format: The form of the file, if it is a table of the user.
    """

    name: str
    selection: tuple[str | None, ...] = ()
    part: tuple[float, float] | None = None
    table_format: TableFormat = TableFormat()  # noqa: RUF009 it is immutable

    def fingerprint(self) -> str:
        """Returns text that identifies what is read: the SHA-256 of the file, and its part."""
        text = f"SHA-256 {files.sha256_of_file(self.name)}"
        if self.selection:
            text += f" {self.selection}"
        if self.part:
            text += f" from {self.part[0]!r} to {self.part[1]!r}"
        if self.table_format != TableFormat():
            text += f" {self.table_format}"
        return text


def share_of(*texts: Any) -> float:
    """Returns a number in [0, 1) that is a hash of the texts of a row.

    The hash decides the split of the row. It ignores case and repeated white space, so
    that rows with equal texts are in the same split.
    """
    text = "\0".join(" ".join(str(value).split()).casefold() for value in texts)
    encoded = text.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(encoded, digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


@dataclasses.dataclass(frozen=True)
class Split:
    """One split of a data set.

    Attributes:
        kind: One of `KINDS`.
        source: The file, or the part of a data set, that contains the examples. It has
            a `name` for messages, such as the path, and a method `fingerprint`, which
            returns text that differs if the content differs.
        suffix: Distinguishes splits of the same kind, such as "mismatched"; usually ""
            for the first one. It is appended to the names of metrics and of output
            files.
        limit: The maximum number of examples to read, from the start; 0 reads all.
    """

    kind: str
    source: Any
    suffix: str = ""
    limit: int = 0

    @property
    def name(self) -> str:
        """The name of the split, such as "dev" or "dev_mismatched"."""
        return self.with_suffix(self.kind)

    def with_suffix(self, text: str) -> str:
        """Appends the suffix, if there is one, as in "accuracy_mismatched"."""
        return f"{text}_{self.suffix}" if self.suffix else text

    def result_name(self, metric: str) -> str:
        """Returns the name of a metric in the results: "eval_f1" or "test_f1"."""
        return self.with_suffix(f"{'test' if self.kind == 'test' else 'eval'}_{metric}")


class RowCounts(Counter[str]):
    """Counts the unusual rows of a split by reason; keeps the first row of each reason.

    Attributes:
        num_read: The number of examples that were read.
        notes: Sentences that are saved with the records of the split. "first" has the
            first row of each reason, "read" says what was read, such as the columns,
            and "warnings" has the warnings to repeat at the end of the run.
    """

    def __init__(self) -> None:
        super().__init__()
        self.num_read = 0
        self._num_skipped = 0
        self.notes: defaultdict[str, list[str]] = defaultdict(list)

    def add(self, reason: str, row: str, is_skipped: bool = False) -> None:
        """Counts a row under a reason, such as "short rows skipped".

        `row` describes the row in messages: its file, its line, and the value that is
        the reason. `is_skipped` means that the row gives no example.
        """
        if reason not in self:
            self.notes["first"].append(
                f"The first of the {reason}: {row.removesuffix('.')}."
            )
        self[reason] += 1
        self._num_skipped += is_skipped

    def report_labels(self, labels: Counter[str], split: Split) -> None:
        """Adds the labels of a split to the notes; warns if train labels look equal.

        `labels` has the number of examples by label; the key "" stands for no label.
        """
        missing = labels.pop("", 0) + self[WITHOUT_LABEL]
        ranked = [*dict(labels.most_common())]
        # The most frequent labels are sorted, numbers by size. `repr` escapes invisible
        # characters.
        shown = ranked[:_SHOWN_LABELS]
        order = int if all(map(str.isdecimal, shown)) else str
        names = [*sorted(shown, key=order), *ranked[_SHOWN_LABELS:]]
        parts = [f"{repr(name)[1:-1]} {labels[name]:,}" for name in names]
        text = shortened(parts, _SHOWN_LABELS) or "none"
        text += f"; without label {missing:,}" if missing else ""
        self.notes["read"].append(f"labels: {text}")

        # Groups of labels that differ only in case or in invisible characters.
        similar: defaultdict[str, list[str]] = defaultdict(list)
        for name in labels:
            spaced = re.sub(r"\s", " ", name)
            seen = "".join(filter(str.isprintable, spaced)).replace("\ufe0f", "")
            similar[seen.casefold()].append(repr(name))
        groups = [" and ".join(each) for each in similar.values() if len(each) > 1]
        if groups and split.kind == "train":
            self.notes["warnings"].append(
                f"Labels of {split.source.name} differ only in case or in characters "
                f"that cannot be seen: {shortened(groups, _SHOWN_LABELS)}. If they are the "
                "same label, write it in one way."
            )

    def check(self, name: str, allow_skipped: bool) -> None:
        """Adds a warning to the notes if over 10 % of the rows of a split are skipped.

        Raises:
            InputError: More than half are skipped, and `allow_skipped` is False.
        """
        share = self._num_skipped / max(self.num_read + self._num_skipped, 1)
        first = " ".join(self.notes["first"])
        text = f"{share:.1%} of the rows of {name} are skipped. {first}"
        if share > _MAX_SHARE and not allow_skipped:
            raise InputError(
                f"{text} Correct the file or the settings with which it is read. To "
                "use only the other rows, give allow_skipped=True."
            )
        if share > _WARNING_SHARE:
            self.notes["warnings"].append(text)
