r"""Measures SQuAD, named entities and multiple choice in bert-tf and in transformers.

bert-tf trains and evaluates with its program. Hugging Face's model for the task
(PyTorch, not compiled) trains on the records of that run, so both systems have the same
sequences and labels, and with the same weights, hyperparameters and precision; see
benchmarks/record_training_peer.py. The metrics of transformers are computed from its
logits by the code of bert-tf. The duration of the process of bert-tf includes the
conversion of the examples and the writing of the answers; that of transformers does
not.

Each finished run is appended to results.jsonl in --output_dir, and is skipped when the
same command is given again. The durations should be measured on a quiet machine.

    python benchmarks/record_training.py --task_name=squad \
    --train_file=train-v1.1.json \
        --dev_file=dev-v1.1.json --init_checkpoint=/models/minilm \
        --max_train_examples=10000 \
        --max_seq_length=256 --peer_python=/tmp/torch/bin/python \
        --output_dir=/tmp/squad_training
"""

import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import fine_tuning
import numpy as np
from absl import flags

from bert_tf.program import command_line

ROOT = pathlib.Path(__file__).parent.parent
PEER = ROOT / "benchmarks/record_training_peer.py"
SETTINGS = (
    "train_file", "dev_file", "init_checkpoint", "learning_rate", "train_batch_size",
    "num_train_epochs", "max_seq_length", "precision", "max_train_examples",
    "version_2_with_negative",
)  # fmt: skip
RECORD_FILES = {"train": "train.tf_record", "predict": "eval.tf_record"}

FLAGS = flags.FLAGS


@dataclasses.dataclass(frozen=True)
class Program:
    """A fine-tuning program.

    Attributes:
        path: The program.
        evaluation: The flag of its evaluation.
        dev_file: The flag of the dev file.
        table: The name of the features of its records in `bert_tf.record_format`.
        scale: The value that means 100 % in its results.
    """

    path: str
    evaluation: str
    dev_file: str
    table: str
    scale: float


PROGRAMS = {
    "squad": Program("run_squad.py", "do_predict", "predict_file", "SPAN", 100),
    "ner": Program("run_ner.py", "do_eval", "dev_file", "TAGGING", 100),
    "swag": Program("run_swag.py", "do_eval", "dev_file", "CHOICE", 1),
}


def define_flags():
    """Defines the flags; a function, so that a test can import this module."""
    flags.DEFINE_enum("task_name", None, list(PROGRAMS), "The task.", required=True)
    flags.DEFINE_string("train_file", None, "The train file.", required=True)
    flags.DEFINE_string("dev_file", None, "The dev file, with answers.", required=True)
    flags.DEFINE_string(
        "init_checkpoint",
        None,
        "Folder with weights in the format of Hugging Face.",
        required=True,
    )
    flags.DEFINE_string(
        "output_dir", None, "Folder for runs and results.", required=True
    )
    flags.DEFINE_float("learning_rate", 1e-4, "Peak learning rate.")
    flags.DEFINE_integer("train_batch_size", 32, "Examples per step.")
    flags.DEFINE_float("num_train_epochs", 2.0, "Passes over the train file.")
    flags.DEFINE_integer("max_seq_length", 128, "Tokens per sequence.")
    flags.DEFINE_string("precision", "bfloat16", "bfloat16 or float32.")
    flags.DEFINE_integer(
        "max_train_examples", 0, "Number of train examples to use; 0: all."
    )
    flags.DEFINE_bool(
        "version_2_with_negative", False, "Whether files of SQuAD have version 2.0."
    )
    flags.DEFINE_integer(
        "num_seeds", 1, "Runs of each system, with the seeds 1, 2 and so on."
    )
    flags.DEFINE_list(
        "systems", [fine_tuning.OURS, fine_tuning.THEIRS], "Systems to measure."
    )
    flags.DEFINE_string(
        "peer_python",
        sys.executable,
        "The Python program of an environment with transformers.",
    )


def run_folder(settings):
    """Returns the output folder of bert-tf."""
    return pathlib.Path(FLAGS.output_dir, f"{FLAGS.task_name}-{settings['seed']}")


def run_bert_tf(settings):
    """Runs the program; returns metrics, number of steps and seconds of training."""
    folder, program = run_folder(settings), PROGRAMS[FLAGS.task_name]
    given = {name: value for name, value in settings.items() if value}
    given[program.dev_file] = given.pop("dev_file")
    command = [
        sys.executable, str(ROOT / "run_scripts" / program.path),
        f"--output_dir={folder}",
        "--do_train=true", f"--{program.evaluation}=true", "--predict_batch_size=32",
        "--eval_batch_size=32", "--overwrite=true", "--optimizer=adamw",
        "--schedule=linear",
        f"--warmup_proportion={fine_tuning.WARMUP_PROPORTION}",
        f"--log_steps={fine_tuning.LOG_STEPS}",
        *(f"--{name}={value}" for name, value in given.items()),
    ]  # fmt: skip
    subprocess.run(command, check=True, stdout=sys.stderr)
    steps, secs = fine_tuning.training_time(
        (folder / "metrics.jsonl").read_text(), settings["train_batch_size"]
    )
    results = fine_tuning.parse_results((folder / "eval_results.txt").read_text())
    return {"metrics": as_shares(results), "steps": steps, "train_secs": secs}


def as_shares(results):
    """Returns the metrics as numbers from 0 to 1."""
    scale = PROGRAMS[FLAGS.task_name].scale
    ignored = ("global_step", "loss")
    return {
        name: value / scale for name, value in results.items() if name not in ignored
    }


def num_train_steps(folder):
    """Returns the number of steps of a run of bert-tf."""
    return json.loads((folder / "training_config.json").read_text())["num_train_steps"]


def make_task(settings):
    """Returns the task, and its dev split."""
    from bert_tf.pretrained import load
    from bert_tf.tasks.choice.choice_task import ChoiceTask
    from bert_tf.tasks.ner.ner_task import NerTask
    from bert_tf.tasks.squad.best_answers import AnswerSettings
    from bert_tf.tasks.squad.squad_task import SquadTask
    from bert_tf.tasks.task import DataLocation, TaskInputs
    from bert_tf.training.training_config import RunPhases

    tokenizer, dev_file = (
        load(settings["init_checkpoint"]).tokenizer,
        settings["dev_file"],
    )
    location = DataLocation(None, settings["train_file"], dev_file, dev_file)
    version_2 = settings["version_2_with_negative"]
    tasks = {
        "squad": SquadTask(answers=AnswerSettings(version_2_with_negative=version_2)),
        "ner": NerTask(),
        "swag": ChoiceTask(),
    }
    inputs = TaskInputs(
        location, RunPhases(True, True), tokenizer, settings["max_seq_length"]
    )
    task = tasks[FLAGS.task_name].prepare(inputs)
    (split,) = task.splits("dev", location)
    return task, split, tokenizer


def read_records(path, sizes):
    """Returns the features of all records of a file, as arrays [R, ...] by name."""
    import tensorflow as tf

    from bert_tf import record_format

    parse = record_format.parser(
        getattr(record_format, PROGRAMS[FLAGS.task_name].table), sizes
    )
    batches = [parse(batch) for batch in tf.data.TFRecordDataset(str(path)).batch(1024)]
    return {
        name: np.concatenate([each[name] for each in batches]) for name in batches[0]
    }


def run_transformers(settings):
    """Runs the peer on the records of bert-tf.

    Returns the values that `run_bert_tf` returns.
    """
    task, split, tokenizer = make_task(settings)
    sizes = {**task.sizes, "S": settings["max_seq_length"]}
    with tempfile.TemporaryDirectory() as folder:
        records = {}
        for kind, name in RECORD_FILES.items():
            records[kind] = read_records(run_folder(settings) / name, sizes)
            np.savez(f"{folder}/{kind}.npz", **records[kind])
        spec = {
            **settings, "task_name": FLAGS.task_name, "group_by_length": False,
            "folder": folder,
            "num_labels": len(getattr(task, "labels", ())),
            "warmup_proportion": fine_tuning.WARMUP_PROPORTION,
            "num_train_steps": num_train_steps(run_folder(settings)),
        }  # fmt: skip
        start = time.perf_counter()
        done = subprocess.run(
            [FLAGS.peer_python, str(PEER), json.dumps(spec)],
            check=True, text=True, stdout=subprocess.PIPE,
        )  # fmt: skip
        wall = time.perf_counter() - start
        outputs = dict(np.load(f"{folder}/outputs.npz"))
    result = json.loads(done.stdout.splitlines()[-1])
    columns = {**records["predict"], **outputs}
    metrics = score(task, split, tokenizer, settings["max_seq_length"], columns)
    return {**result, "metrics": metrics, "process_secs": wall}


def score(task, split, tokenizer, max_seq_length, columns):
    """Returns the metrics, from the features and outputs of all records."""
    from bert_tf.tasks.splits import RowCounts

    examples = list(task.read(split, RowCounts()))
    counts = task.encode(examples, tokenizer, max_seq_length).records_per_example
    counts = np.ones(len(examples), int) if counts is None else counts
    results, first = task.make_results(split), 0
    for example, count in zip(examples, counts, strict=True):
        rows = range(first, first + int(count))
        outputs = [{name: each[row] for name, each in columns.items()} for row in rows]
        results.score(example, results.decode(example, outputs))
        first = rows.stop
    return as_shares(results.metrics())


def measure(system, settings):
    """Runs a system once.

    Returns its result with the wall and CPU seconds of its process.
    """
    start, cores = time.perf_counter(), fine_tuning.cpu_secs_of_children()
    ours = system == fine_tuning.OURS
    result = run_bert_tf(settings) if ours else run_transformers(settings)
    wall = result.pop("process_secs", time.perf_counter() - start)
    cpu = fine_tuning.cpu_secs_of_children() - cores
    return {**result, "wall_secs": wall, "cpu_secs": cpu}


def main():
    """Runs all systems with all seeds, and prints a table of the results."""
    fine_tuning.compare(SETTINGS, FLAGS.systems, measure)


if __name__ == "__main__":
    define_flags()
    command_line.run(main)
