r"""Measures fine-tuning on one GLUE task, in bert-tf and in Hugging Face transformers.

bert-tf trains with run_scripts/run_classifier.py. transformers'
BertForSequenceClassification (PyTorch, not compiled) trains with the same weights,
hyperparameters and precision; see benchmarks/fine_tuning_peer.py. Each system runs once
for each seed, alternately, so that other load on the machine affects both. Each
finished run is appended to --results_file, and is skipped when the same command is
given again.

The printed standard error is that of the mean over the seeds. Three durations are
printed: the training steps (bert-tf: with tracing), the process from its start to its
end, and the CPU time of the process. On a busy machine, the CPU time of PyTorch
includes much waiting of its threads for each other, so the durations should be measured
on a quiet machine.

    pip install --target=/tmp/torch torch transformers
    python benchmarks/fine_tuning.py --torch_path=/tmp/torch --task_name=mrpc \
        --data_dir=/data/glue/MRPC --init_checkpoint=/models/minilm \
        --learning_rate=1e-4 \
        --output_dir=/tmp/fine_tuning --num_seeds=3

The transformers may also be installed in another environment:
--peer_python=/path/to/bin/python.
"""

import json
import math
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

from absl import flags

from bert_tf.errors import InputError
from bert_tf.program import command_line

ROOT = pathlib.Path(__file__).parent.parent
PEER = ROOT / "benchmarks/fine_tuning_peer.py"
OURS, THEIRS, GROUPED = "bert-tf", "transformers", "transformers, grouped by length"
WARMUP_PROPORTION = 0.1
LOG_STEPS = 20
# The flags that define the result of a run. A finished run with other values is not
# skipped.
SETTINGS = (
    "task_name", "data_dir", "init_checkpoint", "learning_rate", "train_batch_size",
    "num_train_epochs", "max_seq_length", "precision", "max_train_examples",
    "max_eval_examples",
)  # fmt: skip

FLAGS = flags.FLAGS


def define_flags():
    """Defines the flags; a function, so that a test can import this module."""
    flags.DEFINE_string(
        "task_name", None, "mrpc, rte, cola, sst-2 or sts-b.", required=True
    )
    flags.DEFINE_string(
        "data_dir", None, "Folder with train.tsv and dev.tsv.", required=True
    )
    flags.DEFINE_string(
        "init_checkpoint",
        None,
        "Folder with weights in the format of Hugging Face.",
        required=True,
    )
    flags.DEFINE_string(
        "output_dir", None, "Folder for the runs of bert-tf.", required=True
    )
    flags.DEFINE_string(
        "results_file",
        None,
        "JSON lines of finished runs; default: results.jsonl in --output_dir.",
    )
    flags.DEFINE_float("learning_rate", 5e-5, "Peak learning rate.")
    flags.DEFINE_integer("train_batch_size", 32, "Examples per step.")
    flags.DEFINE_float("num_train_epochs", 3.0, "Passes over the train split.")
    flags.DEFINE_integer("max_seq_length", 128, "Longer sequences are truncated.")
    flags.DEFINE_string("precision", "bfloat16", "bfloat16 or float32.")
    flags.DEFINE_integer(
        "max_train_examples", 0, "Number of train examples to use; 0: all."
    )
    flags.DEFINE_integer(
        "max_eval_examples", 0, "Number of dev examples to use; 0: all."
    )
    flags.DEFINE_integer(
        "num_seeds", 3, "Runs of each system, with the seeds 1, 2 and so on."
    )
    flags.DEFINE_list(
        "systems", [OURS, THEIRS], f"Systems to measure: {OURS}, {THEIRS}."
    )
    flags.DEFINE_bool(
        "peer_group_by_length",
        False,
        "Whether transformers groups examples of similar length.",
    )
    flags.DEFINE_string(
        "torch_path",
        "",
        "Folder with torch and transformers, if they are not installed.",
    )
    flags.DEFINE_string(
        "peer_python",
        sys.executable,
        "The Python program of an environment with transformers.",
    )


def run_bert_tf(settings, folder):
    """Runs run_classifier.py; returns metrics, number of steps and seconds of training.

    Args:
        settings: Values by name, from `SETTINGS`, and `seed`.
        folder: The output folder of the run; an earlier run in it is replaced.
    """
    given = {name: value for name, value in settings.items() if value}
    command = [
        sys.executable, str(ROOT / "run_scripts/run_classifier.py"),
        f"--output_dir={folder}",
        "--do_train=true", "--do_eval=true", "--eval_batch_size=32", "--overwrite=true",
        "--optimizer=adamw", "--schedule=linear",
        f"--warmup_proportion={WARMUP_PROPORTION}", f"--log_steps={LOG_STEPS}",
        *(f"--{name}={value}" for name, value in given.items()),
    ]  # fmt: skip
    subprocess.run(command, check=True, stdout=sys.stderr)
    text = pathlib.Path(folder, "eval_results.txt").read_text()
    steps, secs = training_time(
        pathlib.Path(folder, "metrics.jsonl").read_text(), settings["train_batch_size"]
    )
    return {"metrics": parse_results(text), "steps": steps, "train_secs": secs}


def parse_results(text):
    """Returns the metrics of `eval_results.txt` by name, without the prefix `eval_`."""
    pairs = (line.split(" = ") for line in text.splitlines())
    return {name.removeprefix("eval_"): float(value) for name, value in pairs}


def training_time(text, batch_size):
    """Returns the steps and the seconds of training, from a `metrics.jsonl`."""
    step, secs = 0, 0.0
    for entry in map(json.loads, text.splitlines()):
        if entry["kind"] == "train":
            secs += (
                (entry["step"] - step)
                * batch_size
                / entry["examples_per_sec_wall_clock"]
            )
            step = entry["step"]
    return step, secs


def run_transformers(settings, group_by_length):
    """Runs the peer in its own process.

    Returns the values that `run_bert_tf` returns.
    """
    spec = {
        **settings,
        "group_by_length": group_by_length,
        "warmup_proportion": WARMUP_PROPORTION,
    }
    environment = {
        name: text for name, text in os.environ.items() if name != "PYTHONPATH"
    }
    if FLAGS.torch_path:
        environment["PYTHONPATH"] = FLAGS.torch_path
    done = subprocess.run(
        [FLAGS.peer_python, str(PEER), json.dumps(spec)],
        check=True, text=True, stdout=subprocess.PIPE, env=environment,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def measure(system, settings):
    """Runs a system once.

    Returns its result with the wall and CPU seconds of its process.
    """
    start, cores = time.perf_counter(), cpu_secs_of_children()
    if system == OURS:
        folder = f"{FLAGS.output_dir}/{settings['task_name']}-{settings['seed']}"
        result = run_bert_tf(settings, folder)
    else:
        result = run_transformers(settings, system == GROUPED)
    wall = time.perf_counter() - start
    return {**result, "wall_secs": wall, "cpu_secs": cpu_secs_of_children() - cores}


def cpu_secs_of_children():
    """Returns the CPU seconds of all processes that this one started and that ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def finished(path, system, settings):
    """Returns the result of a finished run with the same settings, or None."""
    if not path.exists():
        return None
    for entry in map(json.loads, path.read_text().splitlines()):
        if entry["system"] == system and entry["settings"] == settings:
            return entry
    return None


def run_all(path, systems, settings, seeds, run):
    """Runs each system with each seed, unless the run is in the results file.

    Args:
        path: The results file. Each finished run is appended to it.
        systems: Names of systems.
        settings: Values by name, from `SETTINGS`.
        seeds: The seeds.
        run: Function that runs a system once.

    Returns:
        For each system, the list of results, in the order of the seeds.
    """
    results = {system: [] for system in systems}
    for seed in seeds:
        for system in systems:
            own = {**settings, "seed": seed}
            entry = finished(path, system, own)
            if entry is None:
                entry = {"system": system, "settings": own, **run(system, own)}
                with path.open("a") as file:
                    file.write(json.dumps(entry) + "\n")
            results[system].append(entry)
    return results


def mean_and_error(values):
    """Returns the mean and its standard error; the error of a single value is None."""
    error = (
        statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    )
    return statistics.fmean(values), error


def summarize(results):
    """Returns a list of dicts, one a quantity: its name, and mean and error by system.

    Only the metrics that all systems report are included, as points (100 times the
    value).
    """
    runs = [entry["metrics"] for entries in results.values() for entry in entries]
    shared = [name for name in runs[-1] if all(name in metrics for metrics in runs)]
    table = [
        {
            "quantity": name,
            **statistics_by_system(results, lambda e, n=name: 100 * e["metrics"][n]),
        }
        for name in shared
    ]
    for name in ("train_secs", "wall_secs", "cpu_secs"):
        by_system = statistics_by_system(results, lambda entry, n=name: entry[n])
        table.append({"quantity": name, **by_system})
    return table


def statistics_by_system(results, value):
    """Returns for each system the result of `mean_and_error` of `value(entry)`."""
    return {
        system: mean_and_error([value(entry) for entry in entries])
        for system, entries in results.items()
    }


def print_summary(task_name, num_seeds, table):
    """Prints a table with a row for each quantity, and the same as JSON lines."""
    systems = [name for name in table[0] if name != "quantity"]
    print(f"\n{task_name}, {num_seeds} seeds: mean (standard error)")
    print(f"| | {' | '.join(systems)} |\n|---|{'---|' * len(systems)}")
    for row in table:
        cells = [f"{mean:.2f}" + (f" ({error:.2f})" if error is not None else "")
                 for mean, error in (row[system] for system in systems)]  # fmt: skip
        print(f"| {row['quantity']} | {' | '.join(cells)} |")
    for row in table:
        print(json.dumps({"task_name": task_name, "num_seeds": num_seeds, **row}))


def compare(names, systems, run, results_file=None):
    """Runs all systems with all seeds, and prints a table of the results.

    Args:
        names: The flags that define the result of a run.
        systems: The names of the systems.
        run: See `run_all`.
        results_file: The results file; None for results.jsonl in --output_dir.
    """
    settings = {name: FLAGS[name].value for name in names}
    folder = pathlib.Path(FLAGS.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    path = pathlib.Path(results_file or folder / "results.jsonl")
    results = run_all(path, systems, settings, range(1, FLAGS.num_seeds + 1), run)
    print_summary(FLAGS.task_name, FLAGS.num_seeds, summarize(results))


def main():
    """Runs all systems with all seeds, and prints a table of the results."""
    names = {THEIRS: GROUPED} if FLAGS.peer_group_by_length else {}
    systems = [names.get(system, system) for system in FLAGS.systems]
    unknown = {*systems} - {OURS, THEIRS, GROUPED}
    if unknown:
        raise InputError(
            f"Unknown systems: {sorted(unknown)}. Choose from {OURS}, {THEIRS}."
        )
    compare(SETTINGS, systems, measure, FLAGS.results_file)


if __name__ == "__main__":
    define_flags()
    command_line.run(main)
