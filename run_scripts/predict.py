"""Predicts labels for raw text with an exported model.

    python run_scripts/predict.py --model=/models/mine --text="One text." --text="Another."
    python run_scripts/predict.py --model=/models/mine --input_file=texts.txt
    cat texts.txt | python run_scripts/predict.py --model=/models/mine --format=jsonl

Each line is a text, which may be empty. If the model takes pairs, a line contains two texts,
separated by " ||| " or a tab. For each line the program prints the most probable label, the
probability of this label, and the line. A multi-label model gives the labels that reach its
threshold, separated by commas, and a regression model a score. With --format=jsonl, the program
prints for each line a JSON object with the probabilities of all labels, or with the score.
"""

import io
import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from absl import flags

from bert_tf import command_line, files
from bert_tf.errors import InputError

FLAGS = flags.FLAGS
flags.DEFINE_string("model", None, "Folder of an exported model, or of one of its versions.")
flags.DEFINE_multi_string("text", [], "A text; may be given several times.")
flags.DEFINE_string("input_file", None, "A file with one text per line. Default: --text, or stdin.")
flags.DEFINE_enum("format", "text", ["text", "jsonl"], "Output format.")
flags.DEFINE_integer("batch_size", 64, "Texts per batch.", lower_bound=1)
flags.mark_flag_as_required("model")


def main() -> None:
    """Prints a prediction for each text."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (registers operations of the SavedModel)

    folder = newest_version(FLAGS.model)
    facts = json.loads(files.read_text(os.path.join(folder, "assets.extra", "weights.json")))
    signature = tf.saved_model.load(folder).signatures["serving_default"]
    batch: list[tuple[str, list[str]]] = []
    number = 0
    for number, text in enumerate(texts(), start=1):
        batch.append((text, split_pair(text, number) if facts["pair"] else [text]))
        if len(batch) == FLAGS.batch_size:
            print_predictions(signature, facts, batch)
            batch = []
    if batch:
        print_predictions(signature, facts, batch)
    if not number:
        raise InputError(f"No text was given: {FLAGS.input_file or 'stdin'} is empty.")


def newest_version(folder: str) -> str:
    """Returns `folder` if it contains a SavedModel, else its subfolder with the highest version.

    Raises:
        InputError: The folder contains neither a SavedModel nor numbered version folders.
    """
    from tensorflow.io import gfile

    if gfile.exists(os.path.join(folder, "saved_model.pb")):
        return folder
    names = gfile.listdir(folder) if gfile.isdir(folder) else []
    versions = [int(name.rstrip("/")) for name in names if name.rstrip("/").isdigit()]
    if not versions:
        raise InputError(f"--model={folder} is not a SavedModel and contains no version of one.")
    return os.path.join(folder, str(max(versions)))


def texts() -> Iterator[str]:
    """Yields the texts of --text, --input_file or stdin, without line ends.

    Raises:
        InputError: The file is missing, or a line is not valid UTF-8.
    """
    if FLAGS.text:
        yield from FLAGS.text
        return
    if FLAGS.input_file:
        lines: Iterable[str] = io.StringIO(files.read_text(FLAGS.input_file), newline="\n")
    else:
        lines = stdin_lines()
    for line in lines:
        yield line.removesuffix("\n").removesuffix("\r")


def stdin_lines() -> Iterator[str]:
    """Yields the lines of stdin as they arrive, decoded as UTF-8 in every locale."""
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"stdin is not UTF-8: byte 0x{line[error.start]:02x} in line {number}. Convert it "
                "first."
            ) from error


def print_predictions(
    signature: Any, facts: dict[str, Any], batch: list[tuple[str, list[str]]]
) -> None:
    """Prints a prediction for each item of `batch`. An item is an input line and its texts."""
    import tensorflow as tf

    names = ["text_a", "text_b"] if facts["pair"] else ["text"]
    texts_by_name = zip(names, zip(*(parts for _, parts in batch), strict=True), strict=True)
    outputs = signature(**{name: tf.constant(column) for name, column in texts_by_name})
    arrays = {name: value.numpy() for name, value in outputs.items()}
    for (text, _), (columns, fields) in zip(batch, predictions(facts, arrays), strict=True):
        if FLAGS.format == "jsonl":
            print(json.dumps({"text": text, **fields}, ensure_ascii=False))
        else:
            print(f"{columns}\t{text}")


def predictions(
    facts: dict[str, Any], outputs: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the columns of a line and the fields of a JSON object for each item of a batch.

    Args:
        facts: The facts in the folder of the model.
        outputs: `score`, float32 [B], for regression, else `probabilities`, float32 [B, labels].
    """
    task_type = facts.get("task_type", "classification")
    if task_type == "regression":
        for score in outputs["score"]:
            yield f"{score:.4f}", {"score": float(score)}
        return
    for row in outputs["probabilities"]:
        values = {name: float(value) for name, value in zip(facts["labels"], row, strict=True)}
        if task_type == "multi_label":
            reached = row >= facts.get("threshold", 0.5)
            labels = [name for name, is_in in zip(facts["labels"], reached, strict=True) if is_in]
            yield ",".join(labels), {"labels": labels, "probabilities": values}
        else:
            label = facts["labels"][int(row.argmax())]
            yield f"{label}\t{row.max():.4f}", {"label": label, "probabilities": values}


def split_pair(text: str, number: int) -> list[str]:
    """Splits a line into two texts.

    Args:
        text: The line.
        number: Number of the line, from 1.

    Raises:
        InputError: The line has no separator.
    """
    for separator in (" ||| ", "\t"):
        if separator in text:
            return text.split(separator, maxsplit=1)
    raise InputError(
        f'Text {number}: the model takes pairs, "first ||| second". Received: {text[:60]!r}.'
    )


def run() -> None:
    """Entry point of the console script."""
    command_line.run(main)


if __name__ == "__main__":
    run()
