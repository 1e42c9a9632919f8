"""Runs the complete workflow on this machine, from raw text to predictions.

    bash run_scripts/quickstart.sh [--smoke] [--output_dir=quickstart_output]

Collects sample text from the documentation of Python and of the installed libraries,
learns a vocabulary, writes records, pretrains a small BERT with held-out evaluation,
fine-tunes a classifier that predicts the library that a passage is from, exports the
classifier, and classifies raw text in a process that does not import this project. This
takes about 8 minutes on 2 cores. If the same command is run again, completed stages are
skipped and an interrupted stage resumes.
"""

import dataclasses
import json
import os
import pathlib
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from absl import flags

from bert_tf.config import BertConfig
from bert_tf.errors import InputError
from bert_tf.program import command_line, startup
from bert_tf.run_scripts.recipes.results_table import metrics_of
from bert_tf.storage.files import write_json, write_text
from bert_tf.storage.paths import check_output_folder
from bert_tf.storage.workspace import Workspace

FLAGS = flags.FLAGS
flags.DEFINE_string("output_dir", "quickstart_output", "The folder for all results.")
flags.DEFINE_bool("smoke", False, "Run a small version that takes about 2 minutes.")

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The files and folders of the results. The first stage writes FIRST_STATE before any of
# them.
RESULTS = (
    "bert_config.json",
    "sample",
    "vocab.txt",
    "records",
    "pretrained",
    "classifier",
    "export",
    "answers.json",
)
FIRST_STATE = "stages/sample_data.json"
# Number of evaluations during pretraining, evenly spaced, and the size of their
# batches.
_EVALUATIONS = 6
_BATCH_SIZE = 64
# The commands, as a user could type them.
SAMPLE_DATA = """
data_prep/make_sample_data.py --output_dir={folder}/sample --max_documents={documents}
"""
VOCABULARY = """
data_prep/train_vocabulary.py --input_file={folder}/sample/corpus/train.txt
    --output_file={folder}/vocab.txt --vocab_size={vocab_size} --num_unused_tokens=0
"""
RECORDS = """
data_prep/create_pretraining_data.py --input_file={folder}/sample/corpus/{part}.txt
    --output_file={folder}/records/{part}.tfrecord --vocab_file={folder}/vocab.txt
    --dupe_factor={dupe_factor} --max_seq_length=64 --max_predictions_per_seq=10
"""
PRETRAINING = """
run_scripts/run_pretraining.py --input_file={folder}/records/train.tfrecord
    --eval_input_file={folder}/records/heldout.tfrecord --output_dir={folder}/pretrained
    --bert_config_file={folder}/bert_config.json --vocab_file={folder}/vocab.txt
    --do_train=true
    --max_seq_length=64 --max_predictions_per_seq=10 --train_batch_size={batch_size}
    --eval_batch_size={batch_size} --learning_rate=0.001 --do_eval=true
    --max_eval_steps=0 --num_train_steps={num_train_steps} --eval_steps={interval}
    --save_checkpoints_steps={interval}
"""
FINE_TUNING = """
run_scripts/run_classifier.py --task_name=custom
    --data_dir={folder}/sample/classification --init_checkpoint={folder}/pretrained
    --output_dir={folder}/classifier --do_train=true
    --do_eval=true --do_predict=true --max_seq_length=64 --learning_rate=0.0003
    --num_train_epochs={num_train_epochs} --eval_batch_size={batch_size}
    --predict_batch_size={batch_size}
"""
EXPORT = """
run_scripts/export_model.py --checkpoint={folder}/classifier
    --export_dir={folder}/export
"""
ANSWERS = """
run_scripts/quickstart_answers.py {folder}/export/1
    {folder}/sample/classification/test.tsv {folder}/answers.json
"""
_NEXT_STEPS = """
Next steps:
  .venv/bin/tensorboard --logdir {0}          show the training curves
  .venv/bin/python run_scripts/predict.py --model={0}/export \\
      --text="Returns the element-wise sine of the input array."
  .venv/bin/python -m pip install '.[demo]'   and try the model in a browser:
  .venv/bin/python run_scripts/demo.py --model={0}/export
  .venv/bin/python run_scripts/run_classifier.py --help   train a \
classifier on your texts
  .venv/bin/python run_scripts/run_pretraining.py --help  pretrain a \
BERT on your texts"""
_PARTS = ("train", "heldout")
# A row: stage, main result, amount of work, what the amount counts ("" for no
# throughput), and sizes or held-out scores.
_Row = tuple[str, str, float, str, str]


@dataclasses.dataclass(frozen=True)
class Size:
    """The settings in which the full and the small version differ."""

    documents: int
    vocab_size: int
    dupe_factor: int
    num_train_steps: int
    num_train_epochs: float

    def bert_config(self) -> BertConfig:
        """Returns the configuration of a BERT that trains in minutes.

        The initializer_range of google-research/bert, 0.02, suits 768 hidden units.
        This model has 128 hidden units. With 128, an initializer_range of 0.08, close
        to 1 / sqrt(128), keeps the scale of the activations. docs/results.md compares
        0.02 and 0.08. Dropout is 0: training covers less than one epoch of the text, so
        dropout would only slow down learning.
        """
        return BertConfig.named(
            "tiny",
            self.vocab_size,
            max_position_embeddings=128,
            initializer_range=0.08,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )


FULL = Size(
    0, vocab_size=8000, dupe_factor=5, num_train_steps=2280, num_train_epochs=3.0
)
SMOKE = Size(
    2000, vocab_size=3000, dupe_factor=2, num_train_steps=240, num_train_epochs=6.0
)


def main() -> None:
    """Runs the stages that are not complete, then prints their results."""
    size = SMOKE if FLAGS.smoke else FULL
    if "://" in FLAGS.output_dir:
        raise InputError(
            f"--output_dir must be a local folder. Received: {FLAGS.output_dir}."
        )
    folder = os.path.abspath(FLAGS.output_dir) + ("/smoke" if FLAGS.smoke else "")
    check_output_dir(folder)
    startup.set_environment()  # for the program that imports nothing of this project
    stages = Stages(folder, size)

    # From text to records.
    stages.run("sample data", "sample", SAMPLE_DATA)
    stages.run("vocabulary", "vocab.txt", VOCABULARY)
    heldout = RECORDS.replace("{part}", "heldout").replace("{dupe_factor}", "1")
    stages.run("records", "records", RECORDS.replace("{part}", "train"), heldout)

    # From records to predictions.
    write_text(f"{folder}/bert_config.json", size.bert_config().to_json())
    interval = size.num_train_steps // _EVALUATIONS
    stages.run("pretraining", "pretrained", PRETRAINING, interval=interval)
    stages.run("fine-tuning", "classifier", FINE_TUNING)
    stages.run("export", "export", EXPORT)
    with startup.quiet_stderr():  # this program imports nothing of this project
        stages.run("answers", "answers.json", ANSWERS)
    print(format_report(folder, stages.secs))


def check_output_dir(folder: str) -> None:
    """Checks that the stages replace nothing that no quickstart has written.

    Raises:
        InputError: They would, or the folder cannot be written.
    """
    check_output_folder(folder, RESULTS[0])
    Workspace(folder, "quickstart", "output_dir").check_owned([FIRST_STATE], RESULTS)


@dataclasses.dataclass
class Stages:
    """Runs stages in the order of the calls, and skips those that are complete.

    Attributes:
        folder: The output folder.
        size: The size of the data and of the training runs.
        secs: The seconds of each stage that has run, by name.
    """

    folder: str
    size: Size
    secs: dict[str, float] = dataclasses.field(default_factory=dict)

    def run(self, name: str, result: str, *texts: str, **values: object) -> None:
        """Runs a stage unless it is complete.

        Args:
            name: Name of the stage in the printed table.
            result: Path of the main result of the stage, relative to the output folder.
            texts: The commands of the stage, run in order.
            values: Values in the texts, besides the folder and the settings.
        """
        # The words of the commands, with the settings.
        values |= {"folder": self.folder, "batch_size": _BATCH_SIZE, **vars(self.size)}
        commands = [
            [word.format_map(values) for word in text.split()] for text in texts
        ]

        # The state of an earlier call, which is written before any result.
        path = f"{self.folder}/stages/{name.replace(' ', '_')}.json"
        state = (
            read_json(path) if os.path.exists(path) else {"secs": 0.0, "done": False}
        )
        write_json(path, state)

        if state["done"] and os.path.exists(f"{self.folder}/{result}"):
            print(f"== {name}: already complete", file=sys.stderr)
        else:
            print(f"== {name}", file=sys.stderr)
            started = time.monotonic()
            try:
                for command in commands:
                    run_command(command)
                state["done"] = True
            finally:
                state["secs"] += time.monotonic() - started
                write_json(path, state)
        self.secs[name] = state["secs"]


def run_command(words: Sequence[str]) -> None:
    """Runs a program of this repository; exits with its code if it fails.

    The program has a session of its own, so that Ctrl-C ends only this process. Then,
    and after SIGTERM, the program receives one SIGTERM and saves a checkpoint.
    """
    command = [sys.executable, str(ROOT / words[0]), *words[1:]]
    print("$ " + shlex.join(command), file=sys.stderr)
    process = subprocess.Popen(command, start_new_session=True)
    try:
        code = process.wait()
    finally:
        process.terminate()  # no effect if the program has ended
        process.wait()
    if code:
        sys.exit(code if code > 0 else 128 - code)  # the program has printed a message


def read_json(path: str) -> dict[str, Any]:
    """Reads a JSON object that a stage wrote, without TensorFlow."""
    with open(path, encoding="utf-8") as file:
        return dict(json.load(file))


def format_report(folder: str, secs: dict[str, float]) -> str:
    """Returns the table of results and the next steps.

    Args:
        folder: The output folder of the quickstart.
        secs: The seconds that each stage took. The key is the name of the stage.
    """
    cells = [
        ("stage", "time", "throughput", "result", "held-out result (majority baseline)")
    ]
    for stage, result, amount, unit, figure in [
        *_data_rows(folder),
        *_model_rows(folder),
    ]:
        digits = 0 if amount > 9 * secs[stage] else 1
        rate = f"{amount / secs[stage]:,.{digits}f} {unit}/s" if unit else ""
        cells.append((stage, f"{secs[stage]:.0f} s", rate, result, figure))
    cells.append(
        ("total", f"{sum(secs.values()):.0f} s", "", os.path.relpath(folder), "")
    )

    # Columns of equal width.
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in cells
    ]
    return "\n".join(["", *lines, _NEXT_STEPS.format(os.path.relpath(folder))])


def _data_rows(folder: str) -> list[_Row]:
    files = read_json(f"{folder}/sample/stats.json")["files"]
    documents = [files[f"corpus/{part}.txt"]["documents"] for part in _PARTS]
    stats = [read_json(f"{folder}/records/{part}.stats.json") for part in _PARTS]
    examples = [each["train"]["examples"] for each in stats]
    megabytes = files["corpus/train.txt"]["bytes"] / 1e6
    entries = pathlib.Path(folder, "vocab.txt").read_text("utf-8").count("\n")
    return [
        ("sample data", "sample/", sum(documents), "documents", _held_out(documents)),
        ("vocabulary", "vocab.txt", megabytes, "MB", f"{entries:,} entries"),
        ("records", "records/", sum(examples), "examples", _held_out(examples)),
    ]


def _held_out(counts: list[int]) -> str:
    return f"{counts[1]:,} of {sum(counts):,} held out"


def _model_rows(folder: str) -> list[_Row]:
    # Pretraining: two accuracies with their baselines, and two losses.
    pretrained = metrics_of(f"{folder}/pretrained")
    scores = [
        f"{title} {pretrained[f'{name}_accuracy']:.1%} "
        f"({pretrained[f'{name}_majority_accuracy']:.1%})"
        for title, name in (
            ("masked LM", "masked_lm"),
            ("next sentence", "next_sentence"),
        )
    ]
    last, two_thirds = _held_out_losses(
        pathlib.Path(folder, "pretrained/metrics.jsonl")
    )
    scores.append(f"loss {last:.2f} ({two_thirds:.2f} at two thirds of the run)")

    # The classifier: its accuracies as it is, and as an export answers.
    dev = _with_baseline(
        folder, "dev", metrics_of(f"{folder}/classifier")["eval_accuracy"]
    )
    answers = read_json(f"{folder}/answers.json")
    test = _with_baseline(folder, "test", answers["accuracy"])

    rate = f"{answers['texts'] / answers['secs']:,.0f} texts/s after loading"
    return [
        ("pretraining", *_run(folder, "pretrained"), ", ".join(scores)),
        ("fine-tuning", *_run(folder, "classifier"), dev),
        ("export", "export/1", 0, "", ""),
        ("answers", "answers.json", answers["texts"], "texts", f"{test}, {rate}"),
    ]


def _run(folder: str, run: str) -> tuple[str, int, str]:
    config = read_json(f"{folder}/{run}/training_config.json")
    return (
        f"{run}/",
        config["num_train_steps"] * config["global_batch_size"],
        "examples",
    )


def _held_out_losses(metrics_file: pathlib.Path) -> tuple[float, float]:
    """Returns the held-out losses at the end, and after two thirds of the steps."""
    lines = map(json.loads, metrics_file.read_text("utf-8").splitlines())
    losses = [(line["step"], line["loss"]) for line in lines if line["kind"] == "eval"]
    return losses[-1][1], next(
        loss for step, loss in losses if 3 * step >= 2 * losses[-1][0]
    )


def _with_baseline(folder: str, split: str, accuracy: float) -> str:
    """Returns an accuracy with the share of the most common label in the split."""
    files = read_json(f"{folder}/sample/stats.json")["files"]
    counts = files[f"classification/{split}.tsv"]
    most_common = max(
        count for name, count in counts.items() if name.startswith("label ")
    )
    return f"accuracy {accuracy:.1%} ({most_common / counts['examples']:.1%})"


def run() -> None:
    """Runs the program from the command line."""
    command_line.run(main)


if __name__ == "__main__":
    run()
