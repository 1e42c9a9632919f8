"""Runs the complete workflow on this machine, from raw text to predictions.

    bash run_scripts/quickstart.sh [--smoke] [--output_dir=quickstart_output]

Collects sample text from the documentation of Python and of the installed libraries, learns a
vocabulary, writes records, pretrains a small BERT with held-out evaluation, fine-tunes a classifier
that predicts the library that a passage is from, exports the classifier, and classifies raw text in
a process that does not import this project. The number of pretraining steps, from 600 to 3,600, is
chosen from the speed of the machine, so that the quickstart takes at most 10 minutes on 2 cores. If
the same command is run again, completed stages are skipped and an interrupted stage resumes, with
the same number of steps.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from absl import flags

from bert_tf import command_line, json_files, startup
from bert_tf.config import BertConfig
from bert_tf.errors import InputError
from bert_tf.files import read_text, remove, write_json, write_text
from bert_tf.output_paths import check_output_folder
from bert_tf.run_scripts import quickstart_report as report
from bert_tf.run_scripts import quickstart_speed as speed

FLAGS = flags.FLAGS
flags.DEFINE_string("output_dir", "quickstart_output", "The folder for all results.")
flags.DEFINE_bool("smoke", False, "Run a small version that takes less than 2 minutes.")

# Evaluations during pretraining, evenly spaced.
_EVALUATIONS = 6
_EVAL_BATCH_SIZE = 64
# The content of a state file.
_STATE = {"key": json_files.TEXT, "secs": json_files.NUMBER, "done": json_files.TRUTH}
ROOT = pathlib.Path(__file__).resolve().parent.parent


@dataclasses.dataclass(frozen=True)
class Size:
    """The sizes of the data, of the model and of the training runs."""

    documents: int
    config: BertConfig
    max_seq_length: int
    max_predictions_per_seq: int
    dupe_factor: int
    train_batch_size: int
    limits: speed.Limits
    learning_rate: float
    num_train_epochs: float


def _tiny(vocab_size: int) -> BertConfig:
    """Returns the configuration of a BERT that trains in minutes.

    The initializer_range of google-research/bert, 0.02, suits 768 hidden units. This model has 128
    hidden units. With 128, an initializer_range of 0.08, close to 1 / sqrt(128), keeps the scale of
    the activations. docs/results.md compares 0.02 and 0.08. Dropout is 0: training covers less than
    one epoch of the text, so dropout would only slow down learning.
    """
    return BertConfig.named(
        "tiny",
        vocab_size,
        max_position_embeddings=128,
        initializer_range=0.08,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )


FULL = Size(
    documents=0,
    config=_tiny(8000),
    max_seq_length=64,
    max_predictions_per_seq=10,
    dupe_factor=5,
    train_batch_size=64,
    limits=speed.Limits(secs=600, min_train_steps=600, max_train_steps=3600),
    learning_rate=1e-3,
    num_train_epochs=3.0,
)
SMOKE = Size(
    documents=2000,
    config=_tiny(3000),
    max_seq_length=64,
    max_predictions_per_seq=10,
    dupe_factor=2,
    train_batch_size=64,
    limits=speed.Limits(secs=120, min_train_steps=180, max_train_steps=420),
    learning_rate=1e-3,
    num_train_epochs=8.0,
)


@dataclasses.dataclass(frozen=True)
class Stage:
    """One stage of the workflow.

    Attributes:
        name: Name of the stage in the printed table.
        commands: The commands of the stage, run in order.
        result: Path of the main result of the stage, relative to the output folder.
    """

    name: str
    commands: Sequence[Sequence[str]]
    result: str


def make_command(script: str, **flag_values: object) -> list[str]:
    """Returns the words of the command that runs a script with `flag_values` as flags."""
    arguments = (
        f"--{name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in flag_values.items()
    )
    return [sys.executable, str(ROOT / script), *arguments]


def data_stages(size: Size, folder: str) -> Iterator[Stage]:
    """Yields the stages from text to records, as commands that a user could type."""
    text, vocab = f"{folder}/sample/corpus", f"{folder}/vocab.txt"
    sample = make_command(
        "data_prep/make_sample_data.py",
        output_dir=f"{folder}/sample",
        max_documents=size.documents,
    )
    yield Stage("sample data", [sample], "sample")
    vocabulary = make_command(
        "data_prep/train_vocabulary.py",
        input_file=f"{text}/train.txt",
        output_file=vocab,
        vocab_size=size.config.vocab_size,
        num_unused_tokens=0,
    )
    yield Stage("vocabulary", [vocabulary], "vocab.txt")
    records = [
        make_command(
            "data_prep/create_pretraining_data.py",
            input_file=f"{text}/{part}.txt",
            output_file=f"{folder}/records/{part}.tfrecord",
            vocab_file=vocab,
            dupe_factor=dupe_factor,
            max_seq_length=size.max_seq_length,
            max_predictions_per_seq=size.max_predictions_per_seq,
        )
        for part, dupe_factor in (("train", size.dupe_factor), ("heldout", 1))
    ]
    yield Stage("records", records, "records")


def pretraining_command(
    size: Size, folder: str, output_dir: str, **flag_values: object
) -> list[str]:
    """Returns a command that pretrains the model."""
    return make_command(
        "run_scripts/run_pretraining.py",
        input_file=f"{folder}/records/train.tfrecord",
        eval_input_file=f"{folder}/records/heldout.tfrecord",
        output_dir=f"{folder}/{output_dir}",
        bert_config_file=f"{folder}/bert_config.json",
        vocab_file=f"{folder}/vocab.txt",
        do_train=True,
        max_seq_length=size.max_seq_length,
        max_predictions_per_seq=size.max_predictions_per_seq,
        train_batch_size=size.train_batch_size,
        eval_batch_size=_EVAL_BATCH_SIZE,
        learning_rate=size.learning_rate,
        **flag_values,
    )


def speed_stage(size: Size, folder: str) -> Stage:
    """Returns the stage that measures the speed of pretraining."""
    measurement = pretraining_command(
        size,
        folder,
        "speed",
        overwrite=True,
        max_eval_steps=1,
        num_train_steps=speed.MEASURED_STEPS,
        num_warmup_steps=0,
        log_steps=speed.LOG_STEPS,
    )
    return Stage("speed", [measurement], speed.RESULT)


def model_stages(size: Size, folder: str, num_train_steps: int) -> Iterator[Stage]:
    """Yields the stages from records to predictions, as commands that a user could type."""
    classification = f"{folder}/sample/classification"
    pretraining = pretraining_command(
        size,
        folder,
        "pretrained",
        do_eval=True,
        max_eval_steps=0,
        num_train_steps=num_train_steps,
        num_warmup_steps=num_train_steps // 10,
        eval_steps=num_train_steps // _EVALUATIONS,
        save_checkpoints_steps=num_train_steps // _EVALUATIONS,
    )
    yield Stage("pretraining", [pretraining], "pretrained")
    classifier = make_command(
        "run_scripts/run_classifier.py",
        task_name="custom",
        data_dir=classification,
        init_checkpoint=f"{folder}/pretrained",
        output_dir=f"{folder}/classifier",
        do_train=True,
        do_eval=True,
        do_predict=True,
        max_seq_length=size.max_seq_length,
        learning_rate=3e-4,
        num_train_epochs=size.num_train_epochs,
        eval_batch_size=_EVAL_BATCH_SIZE,
        predict_batch_size=_EVAL_BATCH_SIZE,
    )
    yield Stage("fine-tuning", [classifier], "classifier")
    export = make_command(
        "run_scripts/export_model.py",
        checkpoint=f"{folder}/classifier",
        export_dir=f"{folder}/export",
    )
    yield Stage("export", [export], "export")
    program = [report.CLASSIFY_PROGRAM, f"{folder}/export/1", f"{classification}/test.tsv"]
    classify = [sys.executable, "-I", "-c", *program, f"{folder}/answers.json"]
    yield Stage("answers", [classify], "answers.json")


def main() -> None:
    """Runs the stages that are not complete, then prints their results."""
    size = SMOKE if FLAGS.smoke else FULL
    if "://" in FLAGS.output_dir:
        raise InputError(f"--output_dir must be a local folder. Received: {FLAGS.output_dir}.")
    folder = os.path.abspath(FLAGS.output_dir) + ("/smoke" if FLAGS.smoke else "")
    check_output_dir(folder, size)
    stages = Stages(folder, size.config.to_json())
    for stage in data_stages(size, folder):
        stages.run(stage)
    # After the first state file: without one, `check_output_dir` refuses this file in the next run.
    write_text(f"{folder}/bert_config.json", size.config.to_json())
    steps = pretraining_steps(size, stages)
    for stage in model_stages(size, folder, steps):
        stages.run(stage)
    print(report.format_report(folder, stages.secs))
    # The targets are those of a run of the full length.
    missed = [] if steps < FULL.limits.max_train_steps else report.missed_targets(folder)
    if missed:
        sys.exit(f"error: this run did not reach: {'; '.join(missed)}.")


def check_output_dir(folder: str, size: Size) -> None:
    """Checks that a folder without state files has no files that the stages would replace.

    Raises:
        InputError: It has one, or is no folder.
    """
    check_output_folder(folder, "bert_config.json")
    stages = (
        *data_stages(size, folder), speed_stage(size, folder), *model_stages(size, folder, 1)
    )  # fmt: skip
    names = ["bert_config.json", "speed", *(stage.result for stage in stages)]
    found = [name for name in names if os.path.lexists(f"{folder}/{name}")]
    if found and not any(os.path.isfile(state_file(folder, stage)) for stage in stages):
        raise InputError(
            f"{folder}/{found[0]} would be replaced, but no quickstart has written it. Give "
            "another --output_dir."
        )
    os.makedirs(f"{folder}/stages", exist_ok=True)


class Stages:
    """Runs stages in the order of the calls.

    Args:
        folder: The output folder.
        key: Text on which the results of all stages depend.

    Attributes:
        folder: The argument `folder`.
        secs: The seconds of each stage that has run, by name.
    """

    def __init__(self, folder: str, key: str) -> None:
        self.folder, self._key, self.secs = folder, key, dict[str, float]()

    def run(self, stage: Stage) -> None:
        """Runs a stage unless it is complete."""
        commands = [list(words) for words in stage.commands]
        self._key = hashlib.sha256(json.dumps([self._key, commands]).encode()).hexdigest()
        self.secs[stage.name] = run_stage(stage, self._key, self.folder)


def pretraining_steps(size: Size, stages: Stages) -> int:
    """Returns the number of pretraining steps; chooses it from the speed of the first steps."""
    folder, earlier_secs = stages.folder, sum(stages.secs.values())
    stages.run(speed_stage(size, folder))
    if not os.path.exists(f"{folder}/{speed.RESULT}"):
        passages = read_text(f"{folder}/sample/classification/train.tsv").count("\n") - 1
        work = speed.RemainingWork(
            evaluation_batches=_EVALUATIONS * report.held_out_examples(folder) / _EVAL_BATCH_SIZE,
            fine_tuning_batches=size.num_train_epochs * passages / size.train_batch_size,
        )
        line = speed.store_steps(
            folder, size.limits, work, size.train_batch_size, earlier_secs, stages.secs["speed"]
        )
        print(line, file=sys.stderr)
    return speed.stored_steps(folder)[0]


def state_file(folder: str, stage: Stage) -> str:
    """Returns the path of the file that records whether a stage is complete."""
    return f"{folder}/stages/{stage.name.replace(' ', '_')}.json"


def run_stage(stage: Stage, key: str, folder: str) -> float:
    """Runs a stage unless it is complete.

    Args:
        stage: The stage.
        key: A hash of the commands of this stage and of all stages before it.
        folder: The output folder.

    Returns:
        The total seconds of all attempts to run the stage.
    """
    path = state_file(folder, stage)
    state = json_files.read(path, _STATE, own=True, required=True) if os.path.exists(path) else {}
    if state.get("key") != key:
        state = {"key": key, "secs": 0.0, "done": False}
        remove(f"{folder}/{stage.result}")
        write_json(path, state)
    if state["done"] and os.path.exists(f"{folder}/{stage.result}"):
        print(f"== {stage.name}: already complete", file=sys.stderr)
        return float(state["secs"])
    print(f"== {stage.name}", file=sys.stderr)
    started = time.monotonic()
    try:
        for words in stage.commands:
            # A program given by "-c" imports TensorFlow, but nothing of this project.
            is_own = "-c" not in words
            if is_own:
                print("$ " + shlex.join(words), file=sys.stderr)
            with contextlib.nullcontext() if is_own else startup.quiet_stderr():
                code = run_command(words)
            if code:
                sys.exit(code)  # the command has already printed an error message
        state["done"] = True
    finally:
        state["secs"] += time.monotonic() - started
        write_json(path, state)
    return float(state["secs"])


def run_command(words: Sequence[str]) -> int:
    """Runs a command, and lets the command save a checkpoint after SIGINT or SIGTERM.

    Returns:
        The exit code of the command.
    """
    process = subprocess.Popen(words)
    # The terminal sends SIGINT (Ctrl-C) to this process and to the command. SIGTERM arrives only at
    # this process, so it is forwarded.
    handlers = {
        signal.SIGINT: lambda *_: None,
        signal.SIGTERM: lambda number, _: process.send_signal(number),
    }
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        code = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


def run() -> None:
    """Runs the program from the command line."""
    command_line.run(main)


if __name__ == "__main__":
    run()
