"""A sweep of a program that stands for a fine-tuning program."""

import pathlib
import sys

from bert_tf.sweeps.execution import execute
from bert_tf.sweeps.plan import Plan, make_plan
from bert_tf.sweeps.store import SweepStore

PROGRAM = ["run_classifier.py", "--task_name=sst-2"]
# Stands for a fine-tuning program. The file `<x>.fails` makes the run with the value x
# of its flag fail, and `<x>.waits` makes it wait. Each start is a line of the file
# `started`.
FAKE = """
import json, os, sys, time
values = dict(word[2:].split("=", 1) for word in sys.argv[1:])
folder, x, seed = values["output_dir"], values["x"], int(values["seed"])
home = folder.split("/sweep/")[0]
if values.get("check_only"):
    sys.exit("error: x must not be 7. Received: 7." if x == "7" else 0)
with open(f"{home}/started", "a") as file:
    file.write(f"{x} {seed}\\n")
while os.path.exists(f"{home}/{x}.waits"):
    time.sleep(0.02)
if os.path.exists(f"{home}/{x}.fails"):
    sys.exit("some line\\nerror: no space left")
os.makedirs(f"{folder}/checkpoints/step-00000001", exist_ok=True)
open(f"{folder}/train.tf_record", "w").close()
result = {"task": "sst-2", "metric": "eval_accuracy", "higher_is_better": True,
          "value": float(x) / 10 + seed / 100, "baseline": 0.125, "results": {}}
with open(f"{folder}/results.json", "w") as file:
    json.dump(result, file)
"""


class FakePlan(Plan):
    """A sweep of `FAKE` with the values of a flag x."""

    def command(self, run):
        words = super().command(run)[3 + len(self.flags) :]
        return [sys.executable, "-c", FAKE, *words]


def fake_plan(folder, values="1,3,2", seeds=2):
    plan = make_plan([f"x={values}"], seeds, str(folder / "sweep"), PROGRAM)
    return FakePlan(plan.grid, plan.seeds, plan.program, plan.flags, plan.output_dir)


def run_fake(folder, parallel=1, keep_all=False, **sizes):
    """Executes a sweep of the fake program.

    Returns results and errors by the name of the run.
    """
    plan = fake_plan(folder, **sizes)
    failed = execute(plan, SweepStore(plan), parallel, keep_all)
    return {run.name: end for run, end in (SweepStore(plan).results() | failed).items()}


def run():
    """Executes a sweep and prints the results; the folder is the first argument."""
    from bert_tf.run_scripts import sweep

    plan = fake_plan(pathlib.Path(sys.argv[1]), seeds=1)
    store = SweepStore(plan)
    sweep._report(plan, store, execute(plan, store, 1, False))


if __name__ == "__main__":
    run_fake(pathlib.Path(sys.argv[1]), parallel=2)
