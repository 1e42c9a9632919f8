"""The files that the GLUE server accepts, and the zip file that collects them.

Each test file has one submission file: a header line `index<tab>prediction`, then a
line for each example, with its number from 0, in the order of the test file.
"""

import dataclasses
import io
import os
import zipfile
from collections.abc import Mapping, Sequence

from bert_tf.errors import InputError
from bert_tf.storage import files
from bert_tf.storage.paths import check_output_file
from bert_tf.tasks.tables import tab_separated

HEADER = ("index", "prediction")
# The number of examples in each official test file.
TEST_EXAMPLES = {
    "CoLA.tsv": 1063,
    "SST-2.tsv": 1821,
    "MRPC.tsv": 1725,
    "QQP.tsv": 390965,
    "STS-B.tsv": 1379,
    "MNLI-m.tsv": 9796,
    "MNLI-mm.tsv": 9847,
    "QNLI.tsv": 5463,
    "RTE.tsv": 3000,
    "WNLI.tsv": 146,
    "AX.tsv": 1104,
}
# The time stamp in the zip file is constant, so that equal predictions give equal zip
# files.
_TIME_STAMP = (1980, 1, 1, 0, 0, 0)


@dataclasses.dataclass(frozen=True)
class Submission:
    """The official names of a task's submission files, by the suffix of the split.

    `score_range` is the lowest and the highest score that the server accepts; None if
    the predictions are labels.

    Source: gluebenchmark.com/faq.
    """

    file_names: Mapping[str, str]
    score_range: tuple[float, float] | None = None

    def text(self, prediction: str | float) -> str:
        """Returns a label as it is, or a score limited to `score_range` and with three decimals."""
        if isinstance(prediction, str):
            return prediction
        low, high = self.score_range or (float("-inf"), float("inf"))
        return f"{max(low, min(high, float(prediction))):.3f}"


def write_submission_zip(folders: Sequence[str], output_file: str) -> str:
    """Writes the submission files of several folders into a zip file, atomically.

    The files have official names, such as `MRPC.tsv`. Returns sentences with the number
    of files in the zip file, and the names of missing files. Raises InputError if a
    folder has no submission file, if two folders have the same file, or if a file is
    not complete.
    """
    paths = _find_files(folders)
    check_output_file(output_file, paths.values())

    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, path in paths.items():
            entry = zipfile.ZipInfo(name, _TIME_STAMP)
            archive.writestr(entry, _checked_text(path, name), zipfile.ZIP_DEFLATED)
    files.write_bytes(output_file, content.getvalue())

    total = len(TEST_EXAMPLES)
    missing = [name for name in TEST_EXAMPLES if name not in paths]
    line = f"{output_file} contains {len(paths)} of {total} submission files."
    if missing:
        line += f" Missing: {', '.join(missing)}. The GLUE server requires all {total}."
    return line


def _checked_text(path: str, name: str) -> str:
    r"""Returns the content of a submission file with the line end \n.

    Raises InputError if the header or an index is invalid, or if the number of
    predictions is not the official one for `name`, such as "MRPC.tsv".
    """
    rows = tab_separated(path)
    _, header = next(rows, (1, []))
    if tuple(header) != HEADER:
        raise InputError(
            f"{path}, line 1: the columns {' and '.join(HEADER)} are required. "
            f"Received: {', '.join(header)[:200] or 'an empty file'}."
        )

    lines = ["\t".join(HEADER)]
    for index, (line, fields) in enumerate(rows):
        # The server finds the example of a prediction by its index.
        if len(fields) != len(HEADER) or fields[0] != str(index):
            raise InputError(
                f"{path}, line {line}: the index {index} and a prediction are "
                f"required, separated by a tab. Received: {' '.join(fields)[:60]}."
            )
        lines.append("\t".join(fields))

    if len(lines) - 1 != TEST_EXAMPLES[name]:
        raise InputError(
            f"{path} has {len(lines) - 1} predictions, but the official test file has "
            f"{TEST_EXAMPLES[name]} examples. Predict the complete test file."
        )
    return "".join(f"{line}\n" for line in lines)


def _find_files(folders: Sequence[str]) -> dict[str, str]:
    """Returns the paths of the submission files by name, in the official order."""
    if not all(folders) or not folders:
        raise InputError(
            f"input_dirs has an empty name. Received: {','.join(folders)!r}. Give the "
            "output folders of the runs."
        )

    paths: dict[str, str] = {}
    for folder in folders:
        names = [n for n in TEST_EXAMPLES if files.exists(os.path.join(folder, n))]
        if not names:
            raise InputError(
                f"{folder} contains no submission file such as "
                f"{next(iter(TEST_EXAMPLES))}. Give folders in which the predictions "
                "of a GLUE test file were written."
            )
        # One of two files would be lost.
        for name in names:
            if name in paths:
                raise InputError(
                    f"{paths[name]} and {os.path.join(folder, name)} are submission "
                    "files of the same task. Give one of the two folders."
                )
            paths[name] = os.path.join(folder, name)
    return {name: paths[name] for name in TEST_EXAMPLES if name in paths}
