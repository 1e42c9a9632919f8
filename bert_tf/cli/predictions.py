"""Reads the input lines of `predict.py`, predicts, and writes the predictions."""

import codecs
import collections
import contextlib
import itertools
import os
import sys
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

from bert_tf.cli import prediction_tables
from bert_tf.cli.prediction_tables import Texts
from bert_tf.errors import InputError, plain
from bert_tf.progress import Progress
from bert_tf.storage import files, json_files
from bert_tf.tasks.results import with_prediction

if TYPE_CHECKING:
    from bert_tf.export.predictor import Predictor

# An input line or row, with its prediction.
Prediction = tuple[Any, dict[str, Any]]
# An input line, or a row of a table as a dict, and its value for each input of the
# model.
Item = tuple[Any, Texts]


def read_lines(path: str | None, encoding: str) -> Iterator[str]:
    """Yields the lines of a file, a pipe or stdin, without line ends."""
    if not path:
        yield from _lines_of_pipe(sys.stdin.buffer, "stdin", encoding)
    elif "://" in path or os.path.isfile(path) or os.path.isdir(path):
        lines = files.read_lines(path, encoding)
        first = list(itertools.islice(lines, 20))
        start = "\n".join(first).lstrip()
        if start[:1] == "{" and json_files.START.match(start.encode()):
            raise InputError(
                f"{path} contains JSON. Give --input_format=jsonl for one object in "
                "each line, or the file as stdin (< FILE) to read its lines as texts."
            )
        yield from itertools.chain(first, lines)
    else:
        with open(path, "rb") as pipe:
            yield from _lines_of_pipe(pipe, path, encoding)


def _lines_of_pipe(pipe: IO[bytes], name: str, encoding: str) -> Iterator[str]:
    """Yields the lines of a pipe as they arrive; the locale does not affect the decoding."""
    for number, line in enumerate(pipe, start=1):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        try:
            yield line.decode(encoding).removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{name} is not {encoding.upper()}: byte "
                f"0x{line[error.start]:02x} in line {number}. Convert it first, or "
                "give its encoding, such as --encoding=latin-1."
            ) from error


def predict(
    predictor: "Predictor", items: Iterator[Item], block_size: int, has_file: bool
) -> Iterator[Prediction]:
    """Yields each line or row with its prediction.

    `block_size` is the number of texts that are read, and sorted by their lengths, at a
    time. `has_file` says whether the predictions are written to a file.
    """
    # A bar and the predictions would be mixed on a terminal.
    shown = Progress("predicting", None, "texts", log_end=has_file)
    has_bar = has_file or not sys.stdout.isatty()
    counts: collections.Counter[bool | None] = collections.Counter()
    with shown if has_bar else contextlib.nullcontext():
        while block := list(itertools.islice(items, block_size)):
            columns = map(list, zip(*(parts for _, parts in block), strict=True))
            predicted = predictor(*columns, on_batch=shown.update)
            for (line, _), values in zip(block, predicted, strict=True):
                counts[values.get("truncated")] += 1
                yield line, plain(values)

    if counts[True]:
        print(
            f"warning: {counts[True]} of {counts.total()} texts have more than "
            f"{predictor.max_seq_length} tokens; the rest of them was not read.",
            file=sys.stderr,
        )


def write(
    predictions: Iterator[Prediction],
    path: str | None,
    ending: str,
    table: str | None,
    header: bool,
) -> None:
    """Writes predictions to the file `path`, or to the standard output if `path` is None.

    Args:
        ending: The ending of the table to write; "" for lines of text.
        table: The input file, whose columns keep their types in a Parquet file.
        header: Whether a table gets a line with the names of its columns.
    """
    from bert_tf.export.output_decoding import as_columns

    rows = (
        with_prediction(line if isinstance(line, dict) else {"text": line}, values)
        for line, values in predictions
    )
    with contextlib.ExitStack() as stack:
        stream = sys.stdout
        if path:
            path = stack.enter_context(files.atomic_replace(path))
        if ending == ".parquet" and table and path:
            prediction_tables.write_parquet(rows, table, path)
            return
        if path:
            stream = stack.enter_context(open(path, "w", encoding="utf-8", newline=""))
        if ending:
            prediction_tables.write_lines(rows, ending, stream, header)
        for text, prediction in predictions:
            print("\t".join([*as_columns(prediction), text]), file=stream)
