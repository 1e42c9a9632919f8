"""The XNLI task: natural language inference in 15 languages, read from the released files."""

import dataclasses
import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

import tensorflow as tf

from bert_tf.errors import InputError
from bert_tf.tasks.classification.classification_task import ClassificationTask, SplitReader
from bert_tf.tasks.classification.sources.labels import check_label
from bert_tf.tasks.classification.sources.released_files import first_row, released_rows
from bert_tf.tasks.classification.text_examples import TextExample
from bert_tf.tasks.splits import DataLocation, FileSource, Split

LABELS = ("contradiction", "entailment", "neutral")
_LANGUAGE = "language"
_EVALUATION_COLUMNS = ("sentence1", "sentence2", "gold_label", _LANGUAGE)
_TRAIN_COLUMNS = ("premise", "hypo", "label", _LANGUAGE)
_TRAIN_PREFIX = "multinli.train."
# The folders of the files, relative to data_dir: data_dir contains the files, is the folder above
# the unzipped archives, or is the folder of the other archive.
_EVALUATION_FOLDERS = ("", "XNLI-1.0", "../XNLI-1.0")
_TRAIN_FOLDERS = ("multinli", "", "XNLI-MT-1.0/multinli", "../XNLI-MT-1.0/multinli")


def xnli(language: str = "zh") -> ClassificationTask:
    """Returns the XNLI task of a language.

    The train file is the machine translation of MNLI into the language. It is a part of the archive
    XNLI-MT-1.0; the dev and test files are a part of XNLI-1.0. `data_dir` contains the files of
    both archives, or is the folder of one of the unzipped archives, or the folder above them.

    Args:
        language: The code of the language in the files, such as "zh" or "de".

    Source: google-research/bert `run_classifier.XnliProcessor`.
    """
    return ClassificationTask(name="xnli", labels=LABELS, pair=True, reader=XnliReader(language))


@dataclasses.dataclass(frozen=True)
class XnliReader(SplitReader):
    """Reads the released files of XNLI.

    Attributes:
        language: The code of the language.
    """

    language: str

    def splits(self, kind: str, location: DataLocation) -> Sequence[Split]:
        """Finds the file of a kind of split.

        Raises:
            InputError: The file does not exist.
        """
        if kind == "train":
            if not location.train_file and location.data_dir:
                self._check_train_language(location.data_dir)
            name = f"{_TRAIN_PREFIX}{self.language}.tsv"
            names = [os.path.join(folder, name) for folder in _TRAIN_FOLDERS]
        else:
            names = [os.path.join(folder, f"xnli.{kind}.tsv") for folder in _EVALUATION_FOLDERS]
        path = location.find_file(kind, names)
        return [Split(kind, FileSource(path, (self.language,)))]

    def _check_train_language(self, data_dir: str) -> None:
        """Checks that there is a train file of the language, if there are any train files."""
        pattern = f"{_TRAIN_PREFIX}*.tsv"
        languages = {
            os.path.basename(path)[len(_TRAIN_PREFIX) : -len(".tsv")]
            for folder in _TRAIN_FOLDERS
            for path in tf.io.gfile.glob(os.path.join(data_dir, folder, pattern))
        }
        if languages and self.language not in languages:
            raise self._unknown_language(f"{data_dir} has no train file", languages)

    def read(self, split: Split, counts: Counter[str]) -> Iterator[TextExample]:
        """Yields the examples of the language in a file.

        Args:
            split: A split that `splits` returned.
            counts: Not changed.

        Raises:
            InputError: The file is empty, has no row of the language or lacks a column, or a row is
                malformed.
        """
        path = split.source.name
        is_train_file = _TRAIN_COLUMNS[0] in first_row(path)
        columns = _TRAIN_COLUMNS if is_train_file else _EVALUATION_COLUMNS
        optional = {columns[2]} if split.kind == "test" else set()
        rows = released_rows(path, columns, {*optional, *([_LANGUAGE] if is_train_file else [])})
        languages = set()
        for number, (text_a, text_b, text, language) in rows:
            languages.add(language)
            if language in (None, self.language):
                label = None if text is None else read_xnli_label(text, path, number)
                yield TextExample(text_a, text_b, label)
        if not languages & {None, self.language}:
            raise self._unknown_language(f"{path} has no row", languages)

    def _unknown_language(self, subject: str, languages: Collection[str]) -> InputError:
        return InputError(
            f"{subject} of xnli_language {self.language!r}. Its languages are: "
            f"{', '.join(sorted(languages))[:200]}."
        )


def read_xnli_label(text: str, path: str, line: int) -> str:
    """Converts the text of a label; the train files call "contradiction" "contradictory".

    Args:
        text: The text in the label column.
        path: The file, for the error message.
        line: The number of the line, from 1, for the error message.

    Raises:
        InputError: The label is unknown.
    """
    label = "contradiction" if text == "contradictory" else text
    check_label(label, LABELS, path, line)
    return label
