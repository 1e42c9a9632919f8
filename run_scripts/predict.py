r"""Prints the predictions of an exported model for raw text.

    python run_scripts/predict.py --model=/models/mine --text="One text." \
        --text="Another."
    python run_scripts/predict.py --model=/models/mine --input_file=texts.txt
    cat texts.txt | python run_scripts/predict.py --model=/models/mine --format=jsonl
    python run_scripts/predict.py --model=/models/squad --question="Who wrote it?" \
        --context="Ann wrote it in Rome."
    python run_scripts/predict.py --model=/models/swag --context="It rains." \
        --choice="Take an umbrella." --choice="Water the plants."

A table (.csv, .tsv, .jsonl or .parquet) keeps its columns and its format, and gets the
columns of the predictions. Each line of other files is a text, which may be empty. If
the model takes two texts, a line contains both, such as a question and its context,
separated by " ||| " or a tab. For a model of multiple choice, a line contains the
context and all choices, separated in the same way. For each line the program prints the
prediction and the line, or with --format=jsonl a JSON object with the text and the
prediction. The predictions of the tasks are:

* classification: the most probable label and its probability;
* multi-label: the labels that reach the threshold, separated by commas;
* regression: the score;
* questions: the answer and its probability; the answer is empty if the context has
  none;
* named entities: the entities with their types, such as [PER Ann];
* multiple choice: the best choice and its probability;
* fill-mask: for each [MASK], the most probable token and its probability; with --score,
  the sum of the log probabilities of the tokens (the pseudo log-likelihood), and their
  number;
* embedding: the numbers of the vector. With --format=projector, the vectors and the
  columns of the table become a folder, which TensorBoard shows as points:

    python run_scripts/predict.py --model=/models/embedder --input_file=texts.csv \
        --format=projector --output_file=/tmp/points
    tensorboard --logdir=/tmp/points
"""

import itertools
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from absl import flags

from bert_tf.cli import predictions, projector_files, shared_flags
from bert_tf.cli.prediction_tables import SEPARATORS, read_rows, texts_of_lines
from bert_tf.errors import InputError
from bert_tf.program import command_line, config_flags, startup
from bert_tf.storage.paths import check_output_file
from bert_tf.tasks.tables import ENDINGS, TableFormat

if TYPE_CHECKING:
    from bert_tf.export.predictor import Predictor

FLAGS = flags.FLAGS
BLOCK_SIZE = 4096
flags.DEFINE_multi_string("text", [], "A text; may be given several times.")
flags.DEFINE_string("question", None, "A question; --context contains its answer.")
flags.DEFINE_string("context", None, "The context of --question or --choice.")
flags.DEFINE_multi_string(
    "choice",
    [],
    "A choice for --context; is given several times. An empty text is no choice.",
)
config_flags.define_path(
    "input_file",
    "A table (.jsonl, .parquet, or .csv or .tsv with the names of the columns in the "
    "first line), or another file with one text per line. Default: --text, or stdin.",
)
config_flags.define_path(
    "output_file",
    "File for the predictions, or folder for --format=projector; appears when it is "
    "complete. Default: the standard output.",
)
flags.DEFINE_string(
    "text_a_column",
    None,
    "Column of the text in a table, or of the first text. Default: the name of the "
    "model's input (text, text_a, question or context), sentence or sentence1.",
)
flags.DEFINE_string(
    "text_b_column",
    None,
    "Column of the second text. For choices: their columns, separated by commas, or a "
    "column with lists. Default: the name of the model's input (text_b, context or "
    "choices) or sentence2.",
)
flags.DEFINE_bool(
    "score",
    False,
    "For a pretrained model: print the sum of the log probabilities of the tokens of "
    "each text, each predicted from all others, instead of the tokens for [MASK].",
)
config_flags.define(TableFormat)
flags.DEFINE_enum(
    "format",
    "text",
    ["text", "jsonl", "projector"],
    "Output format. By default, the rows of a table keep their columns and its format. "
    "projector: a folder for TensorBoard with the vectors of an embedder.",
)
flags.DEFINE_integer("batch_size", 64, "Texts per batch.", lower_bound=1)
shared_flags.define_exported_model_flags()


def main() -> None:
    """Prints a prediction for each text."""
    check_flags()
    startup.import_tensorflow()
    from bert_tf.export.predictor import Predictor

    predictor = Predictor(
        FLAGS.model,
        FLAGS.batch_size,
        "score" if FLAGS.score else "serving_default",
        trust=FLAGS.trust,
        runtime=FLAGS.runtime,
    )
    # The texts of a block are sorted by length. Lines of a pipe may arrive slowly.
    path = FLAGS.input_file or ""
    is_file = "://" in path or os.path.isfile(path)
    size = max(BLOCK_SIZE, FLAGS.batch_size) if is_file else FLAGS.batch_size
    output = FLAGS.output_file
    predicted = predictions.predict(predictor, items(predictor), size, bool(output))
    first = next(predicted, None)
    if first is None:
        raise InputError(f"No text was given: {path or 'stdin'} is empty.")

    predicted = itertools.chain([first], predicted)
    if FLAGS.format == "projector":
        projector_files.write(output, predicted)
        return
    predictions.write(
        predicted, output, ending=_output_ending(), table=path, header=FLAGS.header
    )


def _output_ending() -> str:
    """Returns the ending of the table to write, or "" for lines of text."""
    return {"text": _table_ending(), "jsonl": ".jsonl"}.get(FLAGS.format, "")


def _table_ending() -> str:
    """Returns the ending of --input_file if it is a table, else ""."""
    form = config_flags.build(TableFormat)
    return form.ending_of(FLAGS.input_file) if FLAGS.input_file else ""


def check_flags() -> None:
    """Checks the flags as far as this is possible without the model."""
    # The texts come from one place.
    has_question, has_context = FLAGS.question is not None, FLAGS.context is not None
    is_one = has_question or has_context or bool(FLAGS.choice)
    if sum(map(bool, (FLAGS.text, FLAGS.input_file, is_one))) > 1:
        raise InputError(
            "Several inputs were given. Give only --text, only --input_file, or only "
            "--context with --question or --choice."
        )
    if is_one and not (has_context and has_question != bool(FLAGS.choice)):
        raise InputError(
            "Give --context with --question or with --choice, but not with both."
        )

    # The files exist, and the ending of the output is that of its format.
    shared_flags.check_paths_exist(FLAGS.model, FLAGS.input_file)
    if FLAGS.format == "projector":
        if not FLAGS.output_file:
            raise InputError("--format=projector writes a folder. Give --output_file.")
        projector_files.check_folder(FLAGS.output_file, FLAGS.input_file)
    elif FLAGS.output_file is not None:
        check_output_file(FLAGS.output_file, filter(None, [FLAGS.input_file]))
        written = _output_ending()
        ending = os.path.splitext(FLAGS.output_file)[1].lower()
        if written and ending in {*ENDINGS} - {written}:
            raise InputError(
                f"--output_file={FLAGS.output_file} would be a {written} table. Give "
                "another name, or --format=jsonl for JSON lines."
            )
    if _output_ending() == ".parquet" and not FLAGS.output_file:
        raise InputError(
            "Predictions for a Parquet file need --output_file or --format=jsonl."
        )

    if not _table_ending() and (FLAGS.text_a_column or FLAGS.text_b_column):
        raise InputError(
            "--text_a_column and --text_b_column are for tables. Give an --input_file "
            f"whose name ends in one of {', '.join(ENDINGS)}, or --input_format."
        )


def items(predictor: "Predictor") -> Iterator[predictions.Item]:
    """Yields each input line or table row, with its texts for the inputs of the model."""
    # One example, as flags.
    if FLAGS.choice:
        texts = [FLAGS.context, *FLAGS.choice]
        yield SEPARATORS[0].join(texts), [FLAGS.context, FLAGS.choice]
    elif FLAGS.question is not None:
        pair = [FLAGS.question, FLAGS.context]
        yield SEPARATORS[0].join(pair), pair

    # A table, or lines: those of --text, or of a file or stdin.
    elif _table_ending():
        form = config_flags.build(TableFormat)
        columns = FLAGS.text_a_column, FLAGS.text_b_column
        yield from read_rows(FLAGS.input_file, predictor, form, columns)
    else:
        encoding = config_flags.build(TableFormat).encoding
        lines = FLAGS.text or predictions.read_lines(FLAGS.input_file, encoding)
        yield from texts_of_lines(lines, predictor)


def run() -> None:
    """Runs the program from the command line."""
    command_line.run(main)


if __name__ == "__main__":
    run()
