r"""Prints the predictions of an exported model for raw text.

    python run_scripts/predict.py --model=/models/mine --text="One text." --text="Another."
    python run_scripts/predict.py --model=/models/mine --input_file=texts.txt
    cat texts.txt | python run_scripts/predict.py --model=/models/mine --format=jsonl
    python run_scripts/predict.py --model=/models/squad --question="Who wrote it?" \
        --context="Ann wrote it in Rome."

Each line is a text, which may be empty. If the model takes two texts, a line contains both, such as
a question and its context, separated by " ||| " or a tab. For each line the program prints the
prediction and the line. With --format=jsonl, it prints a JSON object with the text and the
prediction. The predictions of the tasks are:

* classification: the most probable label and its probability;
* multi-label: the labels that reach the threshold, separated by commas;
* regression: the score;
* questions: the answer and its probability; the answer is empty if the context has none;
* fill-mask: for each [MASK], the most probable token and its probability;
* embedding: the numbers of the vector.
"""

import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from absl import flags

from bert_tf import command_line, files
from bert_tf.errors import InputError

if TYPE_CHECKING:
    from bert_tf.export.predictor import Predictor

FLAGS = flags.FLAGS
SEPARATORS = (" ||| ", "\t")  # of the two texts of a line
flags.DEFINE_string("model", None, "Folder of an exported model, or of one of its versions.")
flags.DEFINE_multi_string("text", [], "A text; may be given several times.")
flags.DEFINE_string("question", None, "A question; --context contains its answer.")
flags.DEFINE_string("context", None, "The context of --question.")
flags.DEFINE_string("input_file", None, "A file with one text per line. Default: --text, or stdin.")
flags.DEFINE_enum("format", "text", ["text", "jsonl"], "Output format.")
flags.DEFINE_integer("batch_size", 64, "Texts per batch.", lower_bound=1)
flags.mark_flag_as_required("model")


def main() -> None:
    """Prints a prediction for each text."""
    from bert_tf.export.predictor import Predictor

    predictor = Predictor(FLAGS.model, FLAGS.batch_size)
    batch: list[tuple[str, list[str]]] = []
    number = 0
    for number, text in enumerate(texts(), start=1):
        batch.append((text, split_pair(text, number) if len(predictor.names) == 2 else [text]))
        if len(batch) == FLAGS.batch_size:
            print_predictions(predictor, batch)
            batch = []
    if batch:
        print_predictions(predictor, batch)
    if not number:
        raise InputError(f"No text was given: {FLAGS.input_file or 'stdin'} is empty.")


def texts() -> Iterator[str]:
    """Yields the texts of --text, --input_file or stdin, without line ends.

    Raises:
        InputError: The file is missing, or a line is not valid UTF-8.
    """
    if (FLAGS.question is None) != (FLAGS.context is None):
        raise InputError("--question and --context need each other. Give both.")
    if FLAGS.question is not None:
        yield f"{FLAGS.question}{SEPARATORS[0]}{FLAGS.context}"
        return
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


def print_predictions(predictor: "Predictor", batch: list[tuple[str, list[str]]]) -> None:
    """Prints a prediction for each item of `batch`. An item is an input line and its texts."""
    columns = zip(*(parts for _, parts in batch), strict=True)
    for (text, _), prediction in zip(batch, predictor(*map(list, columns)), strict=True):
        if FLAGS.format == "jsonl":
            values = {k: getattr(v, "tolist", lambda v=v: v)() for k, v in prediction.items()}
            print(json.dumps({"text": text, **values}, ensure_ascii=False))
        else:
            print("\t".join([*fields(prediction), text]))


def fields(prediction: Mapping[str, Any]) -> list[str]:
    """Returns the text of a prediction, in columns."""
    if "label" in prediction:
        return [prediction["label"], f"{prediction['probability']:.4f}"]
    if "labels" in prediction:
        return [",".join(prediction["labels"])]
    if "answer" in prediction:
        return [prediction["answer"], f"{prediction['probability']:.4f}"]
    if "masks" in prediction:
        best = (next(iter(mask["probabilities"].items())) for mask in prediction["masks"])
        return [f"{token} {probability:.4f}" for token, probability in best]
    if "embedding" in prediction:
        return [" ".join(f"{value:.6f}" for value in prediction["embedding"])]
    return [f"{prediction['score']:.4f}"]


def split_pair(text: str, number: int) -> list[str]:
    """Splits a line into two texts.

    Args:
        text: The line.
        number: Number of the line, from 1.

    Raises:
        InputError: The line has no separator.
    """
    for separator in SEPARATORS:
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
