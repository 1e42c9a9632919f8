"""The XNLI task: natural language inference in 15 languages."""

import dataclasses
import os
from collections import Counter
from collections.abc import Iterator, Sequence

from bert_tf.errors import InputError
from bert_tf.tasks.classification.classification_task import (
    ClassificationTask,
    SplitReader,
)
from bert_tf.tasks.classification.sources.glue_tasks import first_row, released_rows
from bert_tf.tasks.classification.text_examples import (
    NLI,
    TextExample,
    check_label,
    has_no_label,
)
from bert_tf.tasks.splits import DataLocation, FileSource, Split

_LANGUAGE = "language"
_EVALUATION_COLUMNS = ("sentence1", "sentence2", "gold_label", _LANGUAGE)
_TRAIN_COLUMNS = ("premise", "hypo", "label", _LANGUAGE)
# The folders of the files, relative to data_dir: data_dir contains the files, is the
# folder above the unzipped archives, or is the folder of the other archive.
_EVALUATION_FOLDERS = ("", "XNLI-1.0", "../XNLI-1.0")
_TRAIN_FOLDERS = ("multinli", "", "XNLI-MT-1.0/multinli", "../XNLI-MT-1.0/multinli")


def xnli(language: str = "zh") -> ClassificationTask:
    """Returns the XNLI task of a language, given by its code, such as "zh" or "de".

    The train file is the machine translation of MNLI into the language. It is a part of
    the archive XNLI-MT-1.0; the dev and test files are a part of XNLI-1.0. `data_dir`
    contains the files of both archives, or is the folder of one of the unzipped
    archives, or the folder above them.

    Source: google-research/bert `run_classifier.XnliProcessor`.
    """
    return ClassificationTask(
        name="xnli", labels=NLI, pair=True, reader=XnliReader(language)
    )


@dataclasses.dataclass(frozen=True)
class XnliReader(SplitReader):
    """Reads the released files of XNLI for one language."""

    language: str

    def splits(self, kind: str, location: DataLocation) -> Sequence[Split]:
        """Finds the file of a kind of split; raises InputError if it does not exist."""
        name = f"xnli.{kind}.tsv"
        folders: Sequence[str] = _EVALUATION_FOLDERS
        if kind == "train":
            name = f"multinli.train.{self.language}.tsv"
            folders = _TRAIN_FOLDERS
        names = [os.path.join(folder, name) for folder in folders]
        path = location.find_file(kind, names)
        return [Split(kind, FileSource(path, (self.language,)))]

    def read(self, split: Split, counts: Counter[str]) -> Iterator[TextExample]:
        """Yields the examples of the language in a file; raises InputError if there are none."""
        path = split.source.name
        is_train_file = _TRAIN_COLUMNS[0] in first_row(path)
        columns = _TRAIN_COLUMNS if is_train_file else _EVALUATION_COLUMNS
        optional = {columns[2]} if split.kind == "test" else set()
        if is_train_file:
            optional.add(_LANGUAGE)

        languages = set()
        for number, row in released_rows(path, columns, optional):
            text_a, text_b, text, language = row
            languages.add(language)
            if language in (None, self.language):
                # The train files call "contradiction" "contradictory".
                label = "contradiction" if text == "contradictory" else text
                if has_no_label(label, columns[:3], NLI):
                    label = None
                if label is not None:
                    check_label(label, NLI, f"{path}, line {number}")
                yield TextExample(text_a, text_b, label, columns[:3])

        if not languages & {None, self.language}:
            raise InputError(
                f"{path} has no row of xnli_language {self.language!r}. Its languages "
                f"are: {', '.join(sorted(languages))[:200]}."
            )
