"""Runs write the same bytes: with any number of workers, any runner, after a kill."""

import contextlib
import dataclasses
import fcntl
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest
from refusals import refused
from tiny_corpus import MANY_SEGMENTS, contents, create

from bert_tf.record_jobs import local, records_job, stages
from bert_tf.record_jobs.base import create_records
from bert_tf.record_jobs.records_job import WorkerKilledError

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = """
import sys
from bert_tf.errors import InputError
from bert_tf.record_creation.records_config import RecordsConfig
from bert_tf.record_jobs import local, base
if __name__ == "__main__":
    local._BYTES_PER_WORKER = 1
    prepare = base.prepare
    def begin(*arguments):
        print("ready", flush=True)
        return prepare(*arguments)
    base.prepare = begin
    flags = {flags!r}
    try:
        config = RecordsConfig({vocabulary!r}, **flags)
        with local.runner_for(config, {source!r}, int(sys.argv[1])) as each:
            base.create_records(each, config, {source!r}, [{output!r}])
    except InputError as error:
        sys.exit(str(error))
"""


# Ends the `with` statement when a worker has sent a part of a large result.
PART_OF_A_RESULT = """
import gc, multiprocessing, threading
from multiprocessing import connection
from bert_tf.record_jobs.local import LocalRunner

receive, begun = connection.Connection._recv, threading.Event()

def receive_from_killed(pipe, size):
    if size >= 1 << 20:
        workers = [process.sentinel for process in multiprocessing.active_children()]
        begun.set()
        for worker in workers:
            connection.wait([worker])
    return receive(pipe, size)

connection.Connection._recv = receive_from_killed
with LocalRunner(2, set_up=gc.disable) as runner, runner:  # as `create_records` does
    runner.submit(bytes, 1 << 20)
    begun.wait()
"""


def test_workers_can_be_killed_while_they_send_a_result():
    command = [sys.executable, "-c", PART_OF_A_RESULT]
    subprocess.run(command, cwd=ROOT, timeout=60, check=True)


@pytest.mark.slow
def test_two_workers_write_the_same_bytes(job, tmp_path, monkeypatch):
    monkeypatch.setattr(local, "_BYTES_PER_WORKER", 1)
    create(job.config, job.source, f"{tmp_path}/a.tfrecord", workers=2)
    assert hidden_folders(tmp_path) == [] and contents(tmp_path) == job.expected


def hidden_folders(folder):
    return [path.name for path in folder.iterdir() if path.is_dir()]


@pytest.fixture
def beam():
    pytest.importorskip("apache_beam", reason="needs the [beam] extra")
    from bert_tf.record_jobs import beam

    return beam


def test_beam_writes_the_same_bytes(job, tmp_path, beam):
    arguments = job.config, job.source, [f"{tmp_path}/a.tfrecord"]
    runner = beam.BeamRunner("--runner=DirectRunner")
    assert create_records(runner, *arguments)["train"]["examples"] > 1000
    assert hidden_folders(tmp_path) == [] and contents(tmp_path) == job.expected
    assert create_records(runner, *arguments) == {}


@pytest.mark.slow
def test_beam_in_several_processes_writes_the_same_bytes(job, tmp_path, beam):
    options = (
        "--runner=FnApiRunner --direct_running_mode=multi_processing "
        "--direct_num_workers=2"
    )
    runner = beam.BeamRunner(options)
    create_records(runner, job.config, job.source, [f"{tmp_path}/a.tfrecord"])
    assert contents(tmp_path) == job.expected


@pytest.mark.parametrize(
    ("options", "reason"),
    [("--runner=NoRunner", ".*NoRunner"), ("--x='", "No closing quotation")],
)
def test_beam_refuses_options_that_it_cannot_use(beam, options, reason):
    with refused(f"beam_options cannot be used: {reason}"):
        beam.BeamRunner(options)


def test_beam_reports_bad_input_in_one_line(job, tmp_path, beam):
    (tmp_path / "latin.txt").write_bytes(b"waa\nwab\n\nwac\xe9\n")
    with refused(r"^\S*latin.txt is not UTF-8: .* Convert it first\.$"):
        create_records(
            beam.BeamRunner(""), job.config, f"{tmp_path}/latin.txt", [f"{tmp_path}/a"]
        )


def killed(*_):
    raise WorkerKilledError("killed")


assemble_shard, ASSEMBLED = stages.assemble_shard, []


def assemble_two_shards(*arguments):
    """Fails in the third shard. Beam pickles functions of a module by their name."""
    if len(ASSEMBLED) == 2:
        raise RuntimeError("a machine is lost")
    assemble_any_shard(*arguments)


def assemble_any_shard(job, split, number, rows):
    ASSEMBLED.append(pathlib.Path(job.shards[split][number]))
    assemble_shard(job, split, number, rows)


@pytest.mark.parametrize("runner", ["local", "beam"])
def test_a_run_keeps_text_and_shards_of_an_interrupted_run(
    job, tmp_path, monkeypatch, request, runner
):
    if runner == "beam":
        runner = request.getfixturevalue("beam").BeamRunner("")
    else:
        runner = local.LocalRunner(1)
    arguments = runner, job.config, job.source, [f"{tmp_path}/a.tfrecord"]
    ASSEMBLED.clear()
    with monkeypatch.context() as patched:
        patched.setattr(stages, "assemble_shard", assemble_two_shards)
        with pytest.raises(RuntimeError, match="a machine is lost"):
            create_records(*arguments)
    assert not (tmp_path / "a.COMPLETED").exists()
    first, second = ASSEMBLED
    second.write_bytes(second.read_bytes()[:-1])
    ASSEMBLED.clear()
    for name in ("read_segment", "pair_segment"):
        monkeypatch.setattr(stages, name, killed)
    monkeypatch.setattr(stages, "assemble_shard", assemble_any_shard)
    assert create_records(*arguments)
    assert len(ASSEMBLED) == 3 and second in ASSEMBLED and first not in ASSEMBLED
    assert hidden_folders(tmp_path) == [] and contents(tmp_path) == job.expected


def test_counts_that_differ_from_the_plan_end_the_run(job, tmp_path, monkeypatch):
    write_part = stages.write_part

    def write_a_row_twice(files, split, number, rows):
        write_part(files, split, number, rows[[*range(len(rows)), 0]])

    monkeypatch.setattr(stages, "write_part", write_a_row_twice)
    with refused(r"examples of train were planned, [\d,]+ were made"):
        create(job.config, job.source, f"{tmp_path}/a.tfrecord")
    assert not (tmp_path / "a.COMPLETED").exists()


def test_intermediate_files_of_another_job_are_not_used(job, tmp_path, monkeypatch):
    output = [f"{tmp_path}/a.tfrecord"]
    with monkeypatch.context() as patched:
        patched.setattr(stages, "mask_part", killed)
        for config in (job.config, dataclasses.replace(job.config, random_seed=1)):
            with refused("killed It resumes where this run stopped"):
                create(config, job.source, *output)
    create(job.config, job.source, *output)
    assert contents(tmp_path) == job.expected


def test_a_second_run_of_the_same_output_is_refused(job, tmp_path):
    (tmp_path / ".a.work").mkdir()
    with open(tmp_path / ".a.work" / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with refused("Another process is writing"):
            create(job.config, job.source, f"{tmp_path}/a.tfrecord")
    assert os.listdir(tmp_path) == [".a.work"]


def test_a_work_folder_shows_what_it_is_until_its_end(tmp_path, monkeypatch):
    for name in ("lock", "rows-0"):
        (tmp_path / name).write_text(name)
    with monkeypatch.context() as context:
        context.setattr("shutil.rmtree", lambda *_, **__: None)  # as if killed
        records_job.remove_work_folder(str(tmp_path))
    assert os.listdir(tmp_path) == ["lock"]
    records_job.remove_work_folder(str(tmp_path))
    assert not tmp_path.exists()


def workers_of(process):
    """Returns the process ids of the workers; a worker is found by its command line."""
    children = pathlib.Path(
        f"/proc/{process.pid}/task/{process.pid}/children"
    ).read_text()
    return [
        int(child)
        for child in children.split()
        if b"spawn_main" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes()
    ]


@pytest.mark.slow
def test_a_run_that_is_killed_at_any_moment_resumes(job, tmp_path):
    output = tmp_path / "killed" / "a.tfrecord"
    script = tmp_path / "run.py"
    script.write_text(
        PROGRAM.format(
            flags=MANY_SEGMENTS,
            vocabulary=job.config.vocab_file,
            source=job.source,
            output=str(output),
        ),
        encoding="utf-8",
    )
    seed = int(time.time())
    print(f"seed {seed}")
    rng = random.Random(seed)
    plan = [(1, "parent")] * 4 + [(2, "parent")] * 3 + [(2, "worker")] * 3
    rng.shuffle(plan)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    while plan:
        workers, victim = plan[-1]
        process = subprocess.Popen(
            [sys.executable, str(script), str(workers)], cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=environment,
        )  # fmt: skip
        # The imports take seconds and the work takes under a second: wait until the
        # work begins.
        assert process.stdout.readline() == b"ready\n"
        time.sleep(rng.random() * 0.6)
        with contextlib.suppress(OSError, IndexError):
            chosen = (
                process.pid if victim == "parent" else rng.choice(workers_of(process))
            )
            os.kill(chosen, signal.SIGKILL)
        _, stderr = process.communicate(timeout=120)
        if process.returncode:
            plan.pop()
            assert process.returncode == (
                -signal.SIGKILL if victim == "parent" else 1
            ), stderr
            assert (
                victim == "parent"
                or b"memory ran out (`dmesg`" in stderr.splitlines()[-1]
            )
        if (output.parent / "a.COMPLETED").exists():
            assert contents(output.parent) == job.expected
            shutil.rmtree(output.parent)
    subprocess.run(
        [sys.executable, str(script), "1"], cwd=ROOT, check=True, capture_output=True,
        env=environment,
    )  # fmt: skip
    assert contents(output.parent) == job.expected


SIGNALLED = """
import sys
from bert_tf.program import command_line
from bert_tf.data_prep import create_pretraining_data
from bert_tf.record_jobs import local
if __name__ == "__main__":
    local._BYTES_PER_WORKER = 1
    run = local.LocalRunner.run
    def begin(runner, name, *arguments):
        if name == "pairing":
            print("ready", flush=True)
        run(runner, name, *arguments)
    local.LocalRunner.run = begin
    command_line.run(create_pretraining_data.main)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_a_signal_ends_says_how_to_continue(job, tmp_path, number):
    (tmp_path / "run.py").write_text(SIGNALLED)
    names = ("interrupted", "uninterrupted")
    inputs = [f"--input_file={job.source}", f"--vocab_file={job.config.vocab_file}"]
    program = [sys.executable, f"{tmp_path}/run.py", *inputs, "--num_workers=2"]
    commands = [[*program, f"--output_file={tmp_path}/{name}/a"] for name in names]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": ROOT}
    # `nohup pytest` would pass an ignored SIGHUP to child processes.
    group = {
        "start_new_session": True,
        "preexec_fn": lambda: signal.signal(number, signal.SIG_DFL),
    }
    with subprocess.Popen(commands[0], **group, **pipes) as process:
        assert process.stdout.readline() == b"ready\n"
        workers = workers_of(process)
        os.killpg(process.pid, number)  # as a terminal or a batch system does
        _, messages = process.communicate()
    assert process.returncode == 128 + number
    assert b"\nInterrupted. To continue, give the same command.\n" in messages
    assert b"leaked" not in messages and b"Traceback" not in messages, messages
    assert workers and not any(os.path.exists(f"/proc/{worker}") for worker in workers)
    assert (tmp_path / "interrupted/.a.work").exists()
    for command in commands:
        subprocess.run(command, check=True, **pipes)
    assert contents(tmp_path / names[0]) == contents(tmp_path / names[1])
