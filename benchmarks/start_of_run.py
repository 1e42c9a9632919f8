r"""Measures the time from the start of a program to the end of its second step.

The words after "--" are the program and its flags, without those for the output folder
and for the number of steps. Several clones of bert-tf, such as two versions of it, run
alternately, so that other load on the machine affects all of them.

    python benchmarks/start_of_run.py --clones=/tmp/before,. --output_dir=/tmp/run -- \
        run_scripts/run_classifier.py --task_name=cola --data_dir=GLUE/CoLA --do_train \
        --init_checkpoint=BERT --train_batch_size=8 --max_train_examples=200
"""

import pathlib
import shutil
import statistics
import subprocess
import sys
import time

from absl import flags

from bert_tf.errors import InputError
from bert_tf.program import command_line

FLAGS = flags.FLAGS
flags.DEFINE_list("clones", ["."], "Folders of bert-tf, each with a .venv.")
flags.DEFINE_string(
    "output_dir", None, "The folder of the runs; removed before each.", required=True
)
flags.DEFINE_integer("turns", 3, "Number of runs of each clone.")


def seconds_to_second_step(clone, command):
    """Returns the seconds that a new process needs for two steps."""
    shutil.rmtree(FLAGS.output_dir, ignore_errors=True)
    steps = ["--stop_at_step=2", "--log_steps=1", f"--output_dir={FLAGS.output_dir}"]
    started = time.perf_counter()
    process = subprocess.Popen(
        [str(pathlib.Path(clone).resolve() / ".venv/bin/python"), *command, *steps],
        cwd=clone, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip

    secs, lines = None, []
    for line in process.stdout:
        lines.append(line)
        if secs is None and line.startswith("training: 2 of"):
            secs = time.perf_counter() - started
    if process.wait() or secs is None:
        raise InputError(f"{clone} failed: {''.join(lines[-3:])}")
    return secs


def main(command):
    """Prints the seconds of each clone, and their ratio to the first one."""
    found = {clone: [] for clone in FLAGS.clones}
    for _ in range(FLAGS.turns):
        for clone, secs in found.items():
            secs.append(seconds_to_second_step(clone, command))
            print(clone, f"{secs[-1]:.1f} s", file=sys.stderr, flush=True)

    medians = [statistics.median(secs) for secs in found.values()]
    for clone, median in zip(found, medians, strict=True):
        print(f"{clone}: {median:.1f} s ({median / medians[0]:.2f}x)")


if __name__ == "__main__":
    command_line.run(main, takes_command=True)
