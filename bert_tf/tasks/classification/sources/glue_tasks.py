"""The tasks of the GLUE benchmark, read from the official files.

`released_rows` reads the tab-separated files of public data sets, whose columns have
known names.

Labels are in the order of google-research/bert and the Model Garden.
"""

import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from bert_tf.errors import InputError
from bert_tf.tasks.classification import classification_metrics
from bert_tf.tasks.classification.classification_task import (
    ClassificationTask,
    SplitReader,
)
from bert_tf.tasks.classification.sources import tfds_reader
from bert_tf.tasks.classification.submission import Submission
from bert_tf.tasks.classification.text_examples import (
    NLI,
    TextExample,
    check_label,
    has_no_label,
    nearest,
)
from bert_tf.tasks.splits import KINDS, DataLocation, FileSource, RowCounts, Split
from bert_tf.tasks.tables import column_values, tab_separated
from bert_tf.tasks.task import TaskInputs

BINARY = ("0", "1")
ENTAILMENT = ("entailment", "not_entailment")
SHORT_ROWS = "short rows skipped"
LOWEST_SCORE, HIGHEST_SCORE = 0.0, 5.0
# Values in the label column of a test file whose labels are not public.
_HIDDEN_LABELS = (None, "", "-1")
_FILES = {kind: {"": (f"{kind}.tsv",)} for kind in KINDS}
_MNLI_FILES = {
    "train": {"": ("train.tsv",)},
    "dev": {"": ("dev_matched.tsv",), "mismatched": ("dev_mismatched.tsv",)},
    "test": {"": ("test_matched.tsv",), "mismatched": ("test_mismatched.tsv",)},
}
# AX has no train file. The suffix "ax" keeps its results apart from those of MNLI,
# because both are written into the folder of the MNLI run.
_AX_FILES: dict[str, dict[str, tuple[str, ...]]] = {
    "dev": {"ax": ("diagnostic-full.tsv", "diagnostic/diagnostic-full.tsv")},
    "test": {"ax": ("diagnostic.tsv", "diagnostic/diagnostic.tsv", "AX.tsv")},
}


@dataclasses.dataclass(frozen=True)
class GlueReader(SplitReader):
    """Reads the official files of a GLUE task.

    Columns are found by their names in the header line. Quotes are ordinary characters.

    Attributes:
        folder: The folder of the task in the official archive, such as "SST-2".
        layouts: Tuples with the names of three columns: the sentence, or the first
            sentence of a pair; the second sentence of a pair, or None; the label or the
            score. The first layout whose first name is in the header line is used.
        labels: The labels; () for scores in [0, 5].
        files: For each kind of split, for each suffix, the file names to look for in
            `data_dir` and in its subfolder `folder`.
        skips_short_rows: Whether train and dev rows with too few fields are skipped and
            counted. Short test rows always raise InputError, because the numbers in a
            submission file count all rows.
        header: The names of the columns of files without a header line; None if all
            files have one.
    """

    folder: str
    layouts: tuple[tuple[str, str | None, str], ...]
    labels: tuple[str, ...]
    files: Mapping[str, Mapping[str, tuple[str, ...]]] = dataclasses.field(
        default_factory=lambda: _FILES
    )
    skips_short_rows: bool = False
    header: tuple[str, ...] | None = None

    def prepare(
        self, task: ClassificationTask, inputs: TaskInputs
    ) -> ClassificationTask:
        """Returns the task, which reads tensorflow-datasets if the location has a `tfds_name`."""
        location = inputs.location
        return (
            tfds_reader.read_from_tfds(task, location) if location.tfds_name else task
        )

    def splits(self, kind: str, location: DataLocation) -> Sequence[Split]:
        """Finds the files of a kind of split; raises InputError if one does not exist."""
        if kind not in self.files and not location.explicit_file(kind):
            raise InputError(
                f"The task {self.folder} has no {kind} file. Give a file in the "
                f"official format as {kind}_file, or use the weights of a run of the "
                "task mnli."
            )

        # A given file is the first split of its kind.
        by_suffix = [*self.files.get(kind, _FILES[kind]).items()]
        if location.explicit_file(kind):
            del by_suffix[1:]
        splits = []
        for suffix, names in by_suffix:
            paths = [*names, *(f"{self.folder}/{name}" for name in names)]
            source = FileSource(location.find_file(kind, paths))
            splits.append(Split(kind, source, suffix))
        return splits

    def read(self, split: Split, counts: RowCounts) -> Iterator[TextExample]:
        """Yields the examples of a file.

        In a test file, the label column may be missing, and a label may be empty or -1.
        """
        path = split.source.name
        is_test = split.kind == "test"
        first = first_row(path)
        header = self.header
        columns = next(
            (layout for layout in self.layouts if layout[0] in first), self.layouts[0]
        )
        # `header` is not for files with a header line, nor for test files with fewer
        # columns.
        if header and (columns[0] in first or (is_test and len(first) < len(header))):
            header = None

        optional = {columns[2]} if is_test else set()
        skipped = counts if self.skips_short_rows and not is_test else None
        rows = released_rows(path, columns, optional, header=header, counts=skipped)
        for number, (text_a, text_b, text) in rows:
            is_hidden = is_test and text in _HIDDEN_LABELS
            is_hidden = is_hidden or has_no_label(text, columns, self.labels)
            label = None if is_hidden else text
            position = f"{path}, line {number}"
            if label is not None and self.labels:
                check_label(text, self.labels, position)
            elif label is not None:
                label = read_score(text, position)
            yield TextExample(text_a, text_b, label, columns)


def first_row(path: str) -> list[str]:
    """Returns the fields of the first line of a file; [] if it is empty."""
    return next(tab_separated(path), (0, []))[1]


def released_rows(
    path: str,
    columns: Sequence[str | None],
    optional: Collection[str],
    *,
    header: Sequence[str] | None = None,
    counts: RowCounts | None = None,
) -> Iterator[tuple[int, list[Any]]]:
    """Yields the line number of each row, and its values in some columns.

    If a column is None, or an `optional` column is missing, its value is None. Rows
    that lack another value are skipped and counted in `counts`; without `counts`, they
    raise InputError. `header` names the columns of a file without a header line.
    """
    required = [name for name in columns if name is not None and name not in optional]
    remedy = (
        f"Give the official file of this task, with {', '.join(required)} in its first "
        "line."
    )
    names = (lambda _: header) if header else None
    rows = column_values(
        path, columns, optional, header=names, remedy=remedy, is_released=True
    )

    for number, values in rows:
        # A short row lacks its last values.
        missing = [
            name
            for name, value in zip(columns, values, strict=True)
            if value is None and name in required
        ]
        position = f"{path}, line {number}"
        if not missing:
            yield number, values
        elif counts is not None:
            counts.add(
                SHORT_ROWS, f"{position}: {missing[0]!r} is missing", is_skipped=True
            )
        else:
            raise InputError(
                f"{position} has too few columns: {missing[0]!r} is missing. Remove the "
                "line, or separate its fields with tabs."
            )


def read_score(text: str, place: str) -> float:
    """Converts the text of a similarity score; raises InputError unless it is in [0, 5]."""
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if LOWEST_SCORE <= score <= HIGHEST_SCORE:
        return score
    raise InputError(
        f"{place}: the score {text[:60]!r} is not a number from "
        f"{LOWEST_SCORE:g} to {HIGHEST_SCORE:g}."
    )


def _task(
    folder: str,
    columns: tuple[str, str | None, str],
    labels: tuple[str, ...],
    *metric_names: str,
    file_names: Mapping[str, str] | None = None,
    trained_as: str | None = None,
    other_columns: Sequence[tuple[str, str | None, str]] = (),
    **options: Any,
) -> ClassificationTask:
    """Builds a task whose name is the name of the folder in lower case.

    The last of `metric_names` selects the best weights; without any, accuracy does.
    """
    reader = GlueReader(folder, (columns, *other_columns), labels, **options)
    submission = Submission(
        file_names or {"": f"{folder}.tsv"},
        score_range=None if labels else (LOWEST_SCORE, HIGHEST_SCORE),
    )

    return ClassificationTask(
        name=folder.lower(),
        labels=labels,
        pair=columns[1] is not None,
        reader=reader,
        task_type="classification" if labels else "regression",
        metric_names=metric_names,
        best_by=(("accuracy", *metric_names)[-1], 1),
        submission=submission,
        trained_as=trained_as,
    )


_SENTENCE, _PAIR = ("sentence", None, "label"), ("sentence1", "sentence2", "label")
_COLA_HEADER = ("source", "label", "mark", "sentence")
_TASKS = (
    # The train and dev files of CoLA have no header, and the test file has one.
    _task("CoLA", _SENTENCE, BINARY, "matthews_correlation", header=_COLA_HEADER),
    _task("SST-2", _SENTENCE, BINARY),
    _task("MRPC", ("#1 String", "#2 String", "Quality"), BINARY, "f1"),
    _task(
        "QQP",
        ("question1", "question2", "is_duplicate"),
        BINARY,
        "f1",
        skips_short_rows=True,
    ),
    _task("STS-B", ("sentence1", "sentence2", "score"), (), "pearson", "spearman"),
    _task(
        "MNLI",
        ("sentence1", "sentence2", "gold_label"),
        NLI,
        files=_MNLI_FILES,
        file_names={"": "MNLI-m.tsv", "mismatched": "MNLI-mm.tsv"},
    ),
    _task("QNLI", ("question", "sentence", "label"), ENTAILMENT),
    _task("RTE", _PAIR, ENTAILMENT),
    _task("WNLI", _PAIR, BINARY),
    # `other_columns` are the columns of diagnostic-full.tsv, which has labels.
    _task(
        "AX",
        _PAIR,
        NLI,
        "matthews_correlation",
        files=_AX_FILES,
        file_names={"ax": "AX.tsv"},
        trained_as="mnli",
        other_columns=[("Premise", "Hypothesis", "Label")],
    ),
)
GLUE_TASKS: dict[str, ClassificationTask] = {task.name: task for task in _TASKS}
ALIASES = {"sst2": "sst-2", "stsb": "sts-b"}


def selecting_metric(task_name: str | None, task_type: str) -> str:
    """Returns the name of the metric that selects the best weights of a task.

    The arguments are facts of a trained model; `task_name` is None if it is not known.
    """
    task = GLUE_TASKS.get(task_name or "")
    if task is not None and task.task_type == task_type:
        return task.best_by[0]
    return classification_metrics.DEFAULTS[task_type][1]


def glue_task(name: str) -> ClassificationTask:
    """Returns a GLUE task.

    Args:
        name: The name in upper or lower case, such as "sst-2", "sst2" or "SST-2".

    Raises:
        InputError: There is no such task.
    """
    lower = name.lower()
    lower = ALIASES.get(lower, lower)
    if lower in GLUE_TASKS:
        return GLUE_TASKS[lower]
    similar = nearest(name, (*GLUE_TASKS, *ALIASES))
    suggestion = f" Did you mean {similar}?" if similar else ""
    raise InputError(f"{name!r} is not one of {', '.join(GLUE_TASKS)}.{suggestion}")
