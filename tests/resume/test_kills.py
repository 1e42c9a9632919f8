"""Kills a run with SIGKILL at random times. The resumed run gives the same bits."""

import glob
import json
import os
import random
import re
import signal
import subprocess
import sys
import time

import event_files
import linear_runs
import pytest
from json_files import write_json
from valid_checkpoints import latest_valid_step

KILLS, STEPS = 20, 1500
CONFIG = {
    "vocab_size": 30522,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "type_vocab_size": 2,
}
TEXT_BYTES = 100_000

# This program imports TensorFlow once. Each line on stdin contains a run's arguments
# and log path. For each line the program forks a child process that executes the run,
# prints the process id of the child, and prints the exit code of the child after it has
# ended.
DRIVER = """
import json, os, sys
import tensorflow_text
from bert_tf.run_scripts import run_pretraining as main

for line in sys.stdin:
    argv, log = json.loads(line)
    child = os.fork()
    if child == 0:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1), os.dup2(output, 2)
        sys.argv = [main.__file__, *argv]
        main.run()
        os._exit(0)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Runs:
    """Starts runs of run_pretraining on real records, also on unmasked ones."""

    def __init__(self, folder, records, **flags):
        write_json(folder / "config.json", CONFIG)
        self._log = folder / "log"
        self._flags = {
            "input_file": records,
            "bert_config_file": folder / "config.json",
            "do_train": "true",
            "max_seq_length": 64,
            "max_predictions_per_seq": 10,
            "train_batch_size": 4,
            "num_train_steps": STEPS,
            "num_warmup_steps": 10,
            "shuffle_buffer_size": 100,
            "log_steps": 50,
            "deterministic": "true",
            **flags,
        }
        self._driver = subprocess.Popen(
            [sys.executable, "-c", DRIVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, output_dir, save_checkpoints_steps):
        """Starts a run and returns its process id."""
        flags = {
            **self._flags, "output_dir": output_dir,
            "save_checkpoints_steps": save_checkpoints_steps,
        }  # fmt: skip
        argv = [f"--{name}={value}" for name, value in flags.items()]
        self._driver.stdin.write(json.dumps([argv, str(self._log)]) + "\n")
        self._driver.stdin.flush()
        return int(self._driver.stdout.readline())

    def wait(self):
        """Waits for the end of the run; returns its exit code and its log."""
        code = int(self._driver.stdout.readline())
        return code, self._log.read_text(errors="replace")

    def close(self):
        self._driver.stdin.close()
        self._driver.wait()


@pytest.fixture(params=["static", "dynamic"])
def runs(request, tmp_path, test_data):
    text = tmp_path / "text.txt"
    text.write_bytes((test_data / "data/corpora/books.txt").read_bytes()[:TEXT_BYTES])
    records = tmp_path / "records.tfrecord"
    vocab_file = test_data / "data/vocab/bert-base-uncased-vocab.txt"
    command = [
        sys.executable,
        "-m",
        "bert_tf.data_prep.create_pretraining_data",
        f"--input_file={text}",
        f"--output_file={records}",
        f"--vocab_file={vocab_file}",
        "--max_seq_length=64",
        "--dupe_factor=1",
        f"--masking={request.param}",
    ]
    is_static = request.param == "static"
    command += ["--max_predictions_per_seq=10"] if is_static else []
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    flags = (
        {} if is_static else {"vocab_file": vocab_file, "do_whole_word_mask": "true"}
    )
    started = Runs(tmp_path, records, **flags)
    yield started
    started.close()


def checkpoint_files(folder):
    """Returns the paths of all files of complete and incomplete checkpoints."""
    # pathlib's glob fails if a folder is renamed in the meantime.
    return {
        path
        for name in ("*", ".*")
        for path in glob.glob(f"{folder}/checkpoints/{name}/*")
    }


def kill_at_random_time(folder, process, rng):
    """Kills a run during start-up, or during training and saving."""
    before, deadline = checkpoint_files(folder), time.monotonic() + 60
    if rng.random() < 0.2:
        time.sleep(rng.uniform(0, 4))
    else:
        while checkpoint_files(folder) == before and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(rng.choice([rng.uniform(0, 0.05), rng.uniform(0, 0.4)]))

    os.kill(process, signal.SIGKILL)


@pytest.mark.slow
def test_twenty_kills_do_not_change_the_result(runs, tmp_path):
    folder, rng = tmp_path / "killed", random.Random(0)
    kills_during_saves = 0
    for _ in range(KILLS):
        before = latest_valid_step(folder)
        kill_at_random_time(folder, runs.start(folder, 5), rng)
        code, log = runs.wait()
        assert code == -signal.SIGKILL, log
        assert_resumed_from(before, log)
        assert (latest_valid_step(folder) or 0) >= (before or 0)
        kills_during_saves += any(".tmp" in name for name in checkpoint_files(folder))
    reached = latest_valid_step(folder)
    assert reached and reached < STEPS
    assert kills_during_saves >= 3
    runs.start(folder, STEPS)
    code, log = runs.wait()
    assert code == 0, log
    assert_resumed_from(reached, log)
    runs.start(tmp_path / "uninterrupted", STEPS)
    code, log = runs.wait()
    assert code == 0, log
    for name in ("model.safetensors", "optimizer.safetensors"):
        last = f"checkpoints/step-{STEPS:08d}/{name}"
        assert (folder / last).read_bytes() == (
            tmp_path / "uninterrupted" / last
        ).read_bytes()
    temporary = [str(path) for path in folder.rglob("*") if ".tmp" in path.name]
    assert not temporary
    assert linear_runs.entries_without_rates(
        folder
    ) == linear_runs.entries_without_rates(tmp_path / "uninterrupted")
    steps = event_files.steps_by_tag(folder / "train")
    assert steps.pop("_hparams_/session_start_info") == [0]
    assert all(each == list(range(50, STEPS + 1, 50)) for each in steps.values()), steps


def assert_resumed_from(step, log):
    found = re.findall(r"Continuing from step (\d+)", log)
    assert found in ([], [str(step)])
    trained = re.search(r"^training|Traceback", log, re.MULTILINE)
    assert found or step is None or not trained, log
