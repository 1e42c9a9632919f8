r"""Measures the training of vectors in bert-tf and in sentence-transformers.

bert-tf trains with run_embedding.py. sentence-transformers (PyTorch, not compiled)
trains on the same batches, with the same weights and hyperparameters; see
benchmarks/vector_training_peer.py. Each system computes its metrics itself. Both start
from --init_checkpoint with random weights in its last two blocks.

STS-B (--task_name=sts-b) has the loss CoSENT. A tenth of its train file selects the
best weights, and the metrics are those of the dev file. SQuAD (--task_name=squad) has
pairs of a question and its paragraph. The questions of the dev file are searched in all
of its paragraphs, without a choice of weights.

Each finished run is appended to results.jsonl in --output_dir, and is skipped when the
same command is given again. The durations should be measured on a quiet machine.

    python benchmarks/vector_training.py --task_name=squad \
        --train_file=train-v1.1.json --dev_file=dev-v1.1.json \
        --init_checkpoint=/models/minilm --max_train_examples=10000 --num_seeds=3 \
        --peer_python=/tmp/torch/bin/python --output_dir=/tmp/vectors
"""

import csv
import json
import pathlib
import shutil
import subprocess
import sys
import time

import fine_tuning
import numpy as np
from absl import flags
from safetensors.numpy import load_file, save_file

from bert_tf.program import command_line

ROOT = pathlib.Path(__file__).parent.parent
PEER = ROOT / "benchmarks/vector_training_peer.py"
OURS, THEIRS = "bert-tf", "sentence-transformers"
SETTINGS = (
    "train_file", "dev_file", "init_checkpoint", "learning_rate", "train_batch_size",
    "max_seq_length", "max_train_examples", "precision",
)  # fmt: skip
EVAL_STEPS = 40

FLAGS = flags.FLAGS


def define_flags():
    """Defines the flags."""
    flags.DEFINE_enum("task_name", None, ["sts-b", "squad"], "The data.", required=True)
    flags.DEFINE_string("train_file", None, "The train file.", required=True)
    flags.DEFINE_string("dev_file", None, "The dev file.", required=True)
    flags.DEFINE_string(
        "init_checkpoint", None, "Folder of sentence-transformers.", required=True
    )
    flags.DEFINE_string(
        "output_dir", None, "Folder for runs and results.", required=True
    )
    flags.DEFINE_float("learning_rate", 1e-4, "Peak learning rate.")
    flags.DEFINE_integer("train_batch_size", 32, "Rows per step.")
    flags.DEFINE_integer("max_seq_length", 128, "Tokens per text.")
    flags.DEFINE_string("precision", "float32", "bfloat16 or float32.")
    flags.DEFINE_integer("max_train_examples", 0, "Number of train rows; 0: all.")
    flags.DEFINE_integer(
        "num_seeds", 1, "Runs of each system, with the seeds 1, 2 and so on."
    )
    flags.DEFINE_list("systems", [OURS, THEIRS], "Systems to measure.")
    flags.DEFINE_string(
        "peer_python",
        sys.executable,
        "The Python program of an environment with sentence-transformers.",
    )


def read_rows(path):
    """Returns the rows of STS-B, or of SQuAD: objects with `a`, `b` and any `score`."""
    if FLAGS.task_name == "sts-b":
        with open(path, encoding="utf-8", newline="") as file:
            lines = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            return [
                {"a": row["sentence1"], "b": row["sentence2"], "score": row["score"]}
                for row in lines
            ]
    articles = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["data"]
    return [
        {"a": question["question"].strip(), "b": paragraph["context"]}
        for article in articles
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]


def write_data(folder):
    """Writes the tables of all splits."""
    train, dev = read_rows(FLAGS.train_file), read_rows(FLAGS.dev_file)
    train = train[: FLAGS.max_train_examples or None]
    splits = {"train": train, "dev": dev}
    if FLAGS.task_name == "sts-b":
        splits["selection"] = train[::10]
        splits["train"] = [row for number, row in enumerate(train) if number % 10]
    for name, rows in splits.items():
        lines = "".join(f"{json.dumps(row)}\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines)


def write_initial_model(folder):
    """Copies the initial model, with random weights in its last two blocks."""
    shutil.copytree(FLAGS.init_checkpoint, folder, dirs_exist_ok=True)
    weights = load_file(folder / "model.safetensors")
    number = json.loads((folder / "config.json").read_text())["num_hidden_layers"]
    random = np.random.default_rng(0)
    for name, value in sorted(weights.items()):
        if not any(f"layer.{number - last}." in name for last in (1, 2)):
            continue
        if "LayerNorm" in name or "bias" in name:
            value[:] = name.endswith("LayerNorm.weight")
        else:
            value[:] = random.normal(0, 0.02, value.shape)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def run_bert_tf(settings, folder):
    """Runs the program; returns metrics, number of steps and seconds of training."""
    output = folder / f"run-{settings['seed']}"
    command = [
        sys.executable, str(ROOT / "run_scripts/run_embedding.py"),
        f"--output_dir={output}", f"--init_checkpoint={folder}/initial",
        f"--train_file={folder}/train.jsonl", "--text_a_column=a", "--text_b_column=b",
        "--do_train=true", "--do_eval=true", "--eval_batch_size=64",
        "--predict_batch_size=64", "--num_train_epochs=1", "--overwrite=true",
        "--optimizer=adamw", "--schedule=linear",
        f"--warmup_proportion={fine_tuning.WARMUP_PROPORTION}",
        f"--log_steps={fine_tuning.LOG_STEPS}",
        *(f"--{name}={settings[name]}" for name in
          ("learning_rate", "train_batch_size", "max_seq_length", "precision", "seed")),
    ]  # fmt: skip
    results = "eval_results.txt"
    if FLAGS.task_name == "sts-b":
        results = "test_results.txt"
        command += [
            "--score_column=score", "--max_score=5", f"--eval_steps={EVAL_STEPS}",
            f"--dev_file={folder}/selection.jsonl",
            f"--test_file={folder}/dev.jsonl", "--do_predict=true",
        ]  # fmt: skip
    else:
        command.append(f"--dev_file={folder}/dev.jsonl")
    subprocess.run(command, check=True, stdout=sys.stderr)

    steps, secs = fine_tuning.training_time(
        (output / "metrics.jsonl").read_text(), settings["train_batch_size"]
    )
    metrics = fine_tuning.parse_results((output / results).read_text())
    metrics = {name.removeprefix("test_"): value for name, value in metrics.items()}
    return {"metrics": metrics, "steps": steps, "train_secs": secs}


def run_peer(settings, folder):
    """Runs the peer on the batches of bert-tf; returns the values of `run_bert_tf`."""
    from bert_tf.runs.batches import TrainingOrder

    with (folder / "train.jsonl").open() as file:
        count = sum(1 for _ in file)
    size = settings["train_batch_size"]
    order = TrainingOrder(np.zeros(count), size, settings["seed"])
    batches = [order.batch(step).tolist() for step in range(count // size)]
    (folder / "batches.json").write_text(json.dumps(batches))
    spec = {
        **settings,
        "task_name": FLAGS.task_name,
        "folder": str(folder),
        "warmup_proportion": fine_tuning.WARMUP_PROPORTION,
        "eval_steps": EVAL_STEPS,
    }
    done = subprocess.run(
        [FLAGS.peer_python, str(PEER), json.dumps(spec)],
        check=True, text=True, stdout=subprocess.PIPE,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def measure(system, settings):
    """Runs a system once.

    Returns its result with the wall and CPU seconds of its process.
    """
    folder = pathlib.Path(FLAGS.output_dir)
    run = run_bert_tf if system == OURS else run_peer
    start, cores = time.perf_counter(), fine_tuning.cpu_secs_of_children()
    result = run(settings, folder)
    return {
        **result,
        "wall_secs": time.perf_counter() - start,
        "cpu_secs": fine_tuning.cpu_secs_of_children() - cores,
    }


def main():
    """Runs all systems with all seeds, and prints a table of the results."""
    folder = pathlib.Path(FLAGS.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    write_data(folder)
    write_initial_model(folder / "initial")
    fine_tuning.compare(SETTINGS, FLAGS.systems, measure)


if __name__ == "__main__":
    define_flags()
    command_line.run(main)
