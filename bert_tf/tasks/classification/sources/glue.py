"""The tasks of the GLUE benchmark, read from the official files.

Labels are in the order of google-research/bert and the Model Garden.
"""

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from bert_tf.errors import InputError
from bert_tf.tasks.classification.classification_task import ClassificationTask
from bert_tf.tasks.classification.examples import TextExample
from bert_tf.tasks.classification.results.submission import Submission
from bert_tf.tasks.classification.sources.labels import check_label, nearest
from bert_tf.tasks.classification.sources.named_columns import (
    Columns,
    Positions,
    find_columns,
    find_file,
    read_examples,
    refuse_short_row,
)
from bert_tf.tasks.splits import DataLocation, FileSource, Split
from bert_tf.tasks.tables import tab_separated

BINARY = ("0", "1")
ENTAILMENT = ("entailment", "not_entailment")
NLI = ("contradiction", "entailment", "neutral")
LOWEST_SCORE, HIGHEST_SCORE = 0.0, 5.0
# Text in the label column of a test file whose labels are not public.
_HIDDEN_LABELS = ("", "-1")
_FILES = {"train": {"": ("train.tsv",)}, "dev": {"": ("dev.tsv",)}, "test": {"": ("test.tsv",)}}
_MNLI_FILES = {
    "train": {"": ("train.tsv",)},
    "dev": {"": ("dev_matched.tsv",), "mismatched": ("dev_mismatched.tsv",)},
    "test": {"": ("test_matched.tsv",), "mismatched": ("test_mismatched.tsv",)},
}
# AX has no train file. The suffix "ax" keeps its results apart from those of MNLI, because both are
# written into the folder of the MNLI run.
_AX_FILES: dict[str, dict[str, tuple[str, ...]]] = {
    "dev": {"ax": ("diagnostic-full.tsv", "diagnostic/diagnostic-full.tsv")},
    "test": {"ax": ("diagnostic.tsv", "diagnostic/diagnostic.tsv", "AX.tsv")},
}


@dataclasses.dataclass(frozen=True)
class GlueReader:
    """Reads the official files of a GLUE task.

    Columns are found by their names in the header line. Quotes are ordinary characters.

    Attributes:
        folder: The folder of the task in the official archive, such as "SST-2".
        layouts: The names of the columns; see `named_columns.find_columns`.
        labels: The labels; () for scores in [0, 5].
        files: For each kind of split, for each suffix, the file names to look for in `data_dir`
            and in its subfolder `folder`.
        skips_short_rows: Whether rows with too few fields in train and dev files are skipped and
            counted as "short rows skipped". Short rows are errors otherwise, and in test files,
            because the numbers in a submission file count all rows.
        positions_without_header: The columns of files without a header line; None if all files
            have one.
    """

    folder: str
    layouts: tuple[Columns, ...]
    labels: tuple[str, ...]
    files: Mapping[str, Mapping[str, tuple[str, ...]]] = dataclasses.field(
        default_factory=lambda: _FILES
    )
    skips_short_rows: bool = False
    positions_without_header: Positions | None = None

    def splits(self, kind: str, location: DataLocation) -> Sequence[Split]:
        """Finds the files of a kind of split.

        Raises:
            InputError: A file does not exist.
        """
        if kind not in self.files and not location.explicit_file(kind):
            raise InputError(
                f"The task {self.folder} has no {kind} file. Give a file in the official format as "
                f"{kind}_file, or use the weights of a run of the task mnli."
            )
        by_suffix = self.files.get(kind, _FILES[kind])
        if location.explicit_file(kind):
            by_suffix = dict(itertools.islice(by_suffix.items(), 1))
        return [
            Split(kind, FileSource(self._find(location, kind, names)), suffix)
            for suffix, names in by_suffix.items()
        ]

    def _find(self, location: DataLocation, kind: str, names: Sequence[str]) -> str:
        inside = [f"{self.folder}/{name}" for name in names]
        return find_file(location, kind, [*names, *inside], self.folder)

    def read(self, split: Split, counts: Counter[str]) -> Iterator[TextExample]:
        """Yields the examples of a file.

        In a test file, the label column may be missing, and a label may be empty or -1.

        Args:
            split: A split that `splits` returned.
            counts: Receives the number of "short rows skipped".

        Raises:
            InputError: The file has no examples or lacks a column, or a row is malformed.
        """
        path = split.source.name
        positions, width, rows = self._columns(path, split.kind, tab_separated(path))

        def skip_short_row(path: str, line: int, received: int, required: int) -> None:
            counts["short rows skipped"] += 1

        def read_label(text: str, path: str, line: int) -> str | float | None:
            if text in _HIDDEN_LABELS and split.kind == "test":
                return None
            if not self.labels:
                return read_score(text, path, line)
            check_label(text, self.labels, path, line)
            return text

        skips = self.skips_short_rows and split.kind != "test"
        on_short_row = skip_short_row if skips else refuse_short_row
        return read_examples(path, rows, positions, width, read_label, on_short_row)

    def _columns(
        self, path: str, kind: str, rows: Iterator[tuple[int, list[str]]]
    ) -> tuple[Positions, int, Iterable[tuple[int, list[str]]]]:
        """Returns the positions and the number of the columns, and the rows without the header."""
        first = next(rows, None)
        if first is None:
            raise InputError(f"{path} is empty. Give the official {kind} file of {self.folder}.")
        header = first[1]
        fixed = self.positions_without_header
        is_header = self.layouts[0].text_a in header
        if fixed and not is_header and (kind != "test" or len(header) > fixed.last):
            return fixed, len(header), itertools.chain([first], rows)
        positions = find_columns(path, header, self.layouts, needs_label=kind != "test")
        return positions, len(header), rows


def read_score(text: str, path: str, line: int) -> float:
    """Converts the text of a similarity score.

    Args:
        text: The text in the column of the score.
        path: The file, for the error message.
        line: The number of the line, from 1, for the error message.

    Raises:
        InputError: The text is not a number from 0 to 5.
    """
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if LOWEST_SCORE <= score <= HIGHEST_SCORE:
        return score
    raise InputError(
        f"{path}, line {line}: the score {text[:60]!r} is not a number from {LOWEST_SCORE:g} to "
        f"{HIGHEST_SCORE:g}."
    )


def _task(
    reader: GlueReader,
    *metric_names: str,
    best_by: tuple[str, int] = ("accuracy", 1),
    file_names: Mapping[str, str] | None = None,
    trained_as: str | None = None,
) -> ClassificationTask:
    """Builds a task whose name is the name of the folder in lower case."""
    scores = not reader.labels
    return ClassificationTask(
        name=reader.folder.lower(),
        labels=reader.labels,
        pair=reader.layouts[0].text_b is not None,
        reader=reader,
        task_type="regression" if scores else "classification",
        metric_names=metric_names,
        best_by=best_by,
        submission=Submission(
            file_names or {"": f"{reader.folder}.tsv"},
            test_names=reader.files["test"],
            score_range=(LOWEST_SCORE, HIGHEST_SCORE) if scores else None,
        ),
        trained_as=trained_as,
    )


_SENTENCE = Columns("sentence", None, "label")
_PAIR = Columns("sentence1", "sentence2", "label")
_TASKS = (
    # The train and dev files have no header, and the test file has one.
    _task(
        GlueReader("CoLA", (_SENTENCE,), BINARY, positions_without_header=Positions(3, None, 1)),
        "matthews_correlation",
        best_by=("matthews_correlation", 1),
    ),
    _task(GlueReader("SST-2", (_SENTENCE,), BINARY)),
    _task(
        GlueReader("MRPC", (Columns("#1 String", "#2 String", "Quality"),), BINARY),
        "f1",
        best_by=("f1", 1),
    ),
    _task(
        GlueReader(
            "QQP",
            (Columns("question1", "question2", "is_duplicate"),),
            BINARY,
            skips_short_rows=True,
        ),
        "f1",
        best_by=("f1", 1),
    ),
    _task(
        GlueReader("STS-B", (Columns("sentence1", "sentence2", "score"),), ()),
        "pearson",
        "spearman",
        best_by=("spearman", 1),
    ),
    _task(
        GlueReader("MNLI", (Columns("sentence1", "sentence2", "gold_label"),), NLI, _MNLI_FILES),
        file_names={"": "MNLI-m.tsv", "mismatched": "MNLI-mm.tsv"},
    ),
    _task(GlueReader("QNLI", (Columns("question", "sentence", "label"),), ENTAILMENT)),
    _task(GlueReader("RTE", (_PAIR,), ENTAILMENT)),
    _task(GlueReader("WNLI", (_PAIR,), BINARY)),
    # The second layout is that of diagnostic-full.tsv, which has labels.
    _task(
        GlueReader("AX", (_PAIR, Columns("Premise", "Hypothesis", "Label")), NLI, _AX_FILES),
        "matthews_correlation",
        best_by=("matthews_correlation", 1),
        file_names={"ax": "AX.tsv"},
        trained_as="mnli",
    ),
)
GLUE_TASKS: dict[str, ClassificationTask] = {task.name: task for task in _TASKS}
ALIASES = {"sst2": "sst-2", "stsb": "sts-b"}


def glue(name: str) -> ClassificationTask:
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
