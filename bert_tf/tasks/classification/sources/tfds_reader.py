"""Reads the splits of data sets of tensorflow-datasets."""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bert_tf.errors import InputError
from bert_tf.storage import files
from bert_tf.tasks.classification.classification_task import (
    ClassificationTask,
    SplitReader,
)
from bert_tf.tasks.classification.text_examples import (
    LabelParser,
    TextExample,
    examples_of_rows,
)
from bert_tf.tasks.splits import WITHOUT_LABEL, DataLocation, Split
from bert_tf.tfds_builders import open_builder

_EXAMPLES_PER_BATCH = 1024
_PAIRS = (
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("premise", "hypothesis"),
    ("question", "sentence"),
)
# The names of the splits in tensorflow-datasets, by kind; the first one that exists is
# read. A matched split is read together with its mismatched split. Sets without a dev
# split, such as imdb_reviews, are evaluated on their test split.
_SPLITS = {
    "train": ("train",),
    "dev": ("validation", "validation_matched", "dev", "test"),
    "test": ("test", "test_matched"),
}
# The labels of the official GLUE files, by the label names of tensorflow-datasets. A
# name that is itself a label of the task is not replaced.
_GLUE_LABELS = {
    "unacceptable": "0",
    "acceptable": "1",  # CoLA
    "negative": "0",
    "positive": "1",  # SST-2
    "not_equivalent": "0",
    "equivalent": "1",  # MRPC
    "not_duplicate": "0",
    "duplicate": "1",  # QQP
    "not_entailment": "0",
    "entailment": "1",  # WNLI
}


@dataclasses.dataclass(frozen=True)
class TfdsSource:
    """A split of a tensorflow-datasets data set, as the `source` of a `splits.Split`.

    Attributes:
        name: The name of the data set with its version, a colon, and the name of the
            split.
        builder: The `tfds.core.DatasetBuilder`.
        split: The name of the split, or a part of it such as "train[:90%]".
        columns: The features with the first text, the second text (or None) and the
            label.
    """

    name: str
    builder: Any
    split: str
    columns: tuple[str | None, ...]

    def fingerprint(self) -> str:
        """Returns the name of the split, the SHA-256 of its files, and the columns."""
        import tensorflow as tf

        paths = map(str, self.builder.info.splits[self.split].filepaths)
        hashes = map(files.sha256_of_file, filter(tf.io.gfile.exists, paths))
        digest = files.sha256("".join(hashes).encode())
        return f"{self.name} SHA-256 {digest} {self.columns}"


@dataclasses.dataclass(frozen=True)
class TfdsReader(SplitReader):
    """Reads a data set of tensorflow-datasets.

    Attributes:
        columns: The names of the features with the sentence, or with the first sentence
            of a pair; with the second sentence of a pair, or None; and with the label.
        labels: The labels of the task; None accepts any label.
        label_by_name: The label of the task for each label name in the data set that
            differs from it.
        suffix: The suffix of the first dev split and the first test split.
    """

    columns: tuple[str, str | None, str]
    labels: tuple[str, ...] | None
    task_type: str
    label_separator: str = ","
    label_by_name: Mapping[str, str] = dataclasses.field(default_factory=dict)
    suffix: str = ""

    def splits(self, kind: str, location: DataLocation) -> Sequence[Split]:
        """Finds the splits of a kind; downloads and prepares the data set if needed.

        The explicit file of a kind is the name of a split, such as "train[90%:]".
        Without it, the splits are train, validation and test; a data set without a
        validation split is evaluated on its test split.
        """
        builder = _builder(location, prepare=True)
        _check_features(builder, self.columns)
        existing = builder.info.splits
        conventional = next(
            (name for name in _SPLITS[kind] if name in existing), _SPLITS[kind][0]
        )
        name = location.explicit_file(kind) or conventional

        # MNLI has a mismatched split for each matched split.
        names = {"" if kind == "train" else self.suffix: name}
        mismatched = name.removesuffix("_matched") + "_mismatched"
        is_matched = name == conventional and name.endswith("_matched")
        if is_matched and mismatched in existing:
            names["mismatched"] = mismatched
        for name in names.values():
            try:
                existing[name]
            except (KeyError, ValueError) as error:
                raise InputError(
                    f"{location.tfds_name} has no split {name!r}. Its splits are: "
                    f"{', '.join(existing)}. Give the name of one of them, or a part "
                    f"such as 'train[90%:]', as {kind}_file."
                ) from error

        data_set = builder.info.full_name
        return [
            Split(
                kind,
                TfdsSource(f"{data_set}:{name}", builder, name, self.columns),
                suffix,
            )
            for suffix, name in names.items()
        ]

    def read(self, split: Split, counts: Counter[str]) -> Iterator[TextExample]:
        """Yields the examples of a split, as `examples_of_rows` does.

        Examples without a label in a train or dev split are skipped and counted.
        """
        parser = LabelParser(
            self.columns[2], self.task_type, self.labels, self.label_separator
        )
        return examples_of_rows(
            self._rows(split, counts),
            split.source.name,
            kind=split.kind,
            columns=self.columns,
            parse_label=parser,
            counts=counts,
        )

    def _rows(
        self, split: Split, counts: Counter[str]
    ) -> Iterator[tuple[int, tuple[str, str | None, Any]]]:
        """Yields the number of each example, from 1, its texts, and its label."""
        source, (text_a, text_b, label) = split.source, self.columns
        names = self.label_names(source.builder)
        number = 0
        for batch in _batches(source, list(filter(None, self.columns))):
            labels = _as_list(batch[label])
            texts = _texts(batch[text_a])
            others = _texts(batch[text_b]) if text_b else [None] * len(labels)

            for text, other, value in zip(texts, others, labels, strict=True):
                number += 1
                converted = _label_of(value, names, split.kind)
                if converted is None and split.kind != "test":
                    counts[WITHOUT_LABEL] += 1
                else:
                    yield number, (text, other, converted)

    def label_names(self, builder: Any) -> list[str]:
        """Returns the names of a data set's labels, as labels of the task; [] without names."""
        feature = builder.info.features[self.columns[2]]
        names = getattr(getattr(feature, "feature", feature), "names", None)
        labels = self.labels or ()
        return [
            name if name in labels else self.label_by_name.get(name, name)
            for name in names or ()
        ]


def _label_of(value: Any, names: Sequence[str], kind: str) -> Any:
    """Converts a value of the label feature to a label; None if there is no label."""
    if isinstance(value, list):
        return [_label_of(element, names, kind) for element in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "ignore")
    if names:
        return names[value] if value >= 0 else None
    # Test splits without public labels contain -1.
    return None if kind == "test" and value == -1 else value


def _builder(location: DataLocation, prepare: bool = False) -> Any:
    return open_builder(location.tfds_name or "", location.tfds_data_dir, prepare)


def find_text_features(location: DataLocation) -> tuple[str, str | None]:
    """Returns the names of the text features of a data set: one, or two for pairs.

    The features have the names in a GLUE data set or the name "text", or there is only
    one. A data set with other text features raises InputError.
    """
    import tensorflow as tf

    features = _builder(location).info.features.items()
    texts = {
        name
        for name, value in features
        if value.dtype == tf.string and value.shape == ()
    }
    for pair in _PAIRS:
        if texts.issuperset(pair):
            return pair
    usual = [name for name in ("sentence", "text") if name in texts]
    if usual or len(texts) == 1:
        return [*usual, *texts][0], None

    raise InputError(
        f"The text features of {location.tfds_name} are: "
        f"{', '.join(sorted(texts)) or 'none'}. Give the one to read as text_a_column, "
        "and for pairs a second one as text_b_column."
    )


def read_from_tfds(
    task: ClassificationTask, location: DataLocation
) -> ClassificationTask:
    """Returns the GLUE task with a reader for its data set, such as "glue/mrpc".

    Labels are mapped by their names, because their order can differ from the order of
    the task. A data set that lacks the text features or labels of the task raises
    InputError.
    """
    text_a, text_b = find_text_features(location)
    suffix = next(iter(task.submission.file_names), "") if task.submission else ""
    reader = TfdsReader(
        (text_a, text_b, "label"),
        task.labels or None,
        task.task_type,
        label_by_name=_GLUE_LABELS,
        suffix=suffix,
    )

    # The data set of another task would be read without an error.
    builder = _builder(location)
    _check_features(builder, ["label"])
    names = set(reader.label_names(builder))
    if (text_b is not None) != task.pair or names != set(task.labels):
        raise InputError(
            f"{location.tfds_name} is not a data set of the task {task.name}: it has "
            f"{'pairs' if text_b else 'single texts'} with the labels "
            f"{', '.join(sorted(names)) or '(scores)'}. Give the data set of this task."
        )
    return dataclasses.replace(task, reader=reader)


def _batches(source: TfdsSource, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """Yields batches of the features `names` of a split, always in the same order."""
    import tensorflow_datasets as tfds

    # A cache would hold the data set in memory.
    config = tfds.ReadConfig(try_autocache=False)
    with files.explain_read_errors(source.name):
        dataset = source.builder.as_dataset(
            split=source.split, shuffle_files=False, read_config=config
        )
        dataset = dataset.map(lambda example: {name: example[name] for name in names})
        yield from dataset.ragged_batch(_EXAMPLES_PER_BATCH)


def _check_features(builder: Any, names: Sequence[str | None]) -> None:
    features = builder.info.features
    missing = next((name for name in names if name and name not in features), None)
    if missing is not None:
        raise InputError(
            f"{builder.info.full_name} has no feature {missing!r}. Its features are: "
            f"{', '.join(sorted(features))}. Give the name of one of them."
        )


def _as_list(values: Any) -> list[Any]:
    return values.to_list() if hasattr(values, "to_list") else values.numpy().tolist()


def _texts(values: Any) -> list[str]:
    return [text.decode("utf-8", "ignore") for text in values.numpy().tolist()]
