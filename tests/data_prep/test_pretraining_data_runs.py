"""Runs write the same bytes: with any number of workers, on any runner, and after a kill."""

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
from tiny_corpus import MANY_SEGMENTS, WORDS, corpus, text_of

from bert_tf.data_prep.pretraining_data.settings import RecordsConfig
from bert_tf.data_prep.runners import local, stages, work_folder
from bert_tf.data_prep.runners.workers import WorkerKilledError
from bert_tf.errors import InputError

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = """
import sys
from bert_tf.errors import InputError
from bert_tf.data_prep.pretraining_data.settings import RecordsConfig
from bert_tf.data_prep.runners import local
if __name__ == "__main__":
    local._BYTES_PER_WORKER = 1
    prepare = local.preparation.prepare
    def begin(*arguments):
        print("ready", flush=True)
        return prepare(*arguments)
    local.preparation.prepare = begin
    flags = {flags!r}
    try:
        config = RecordsConfig({vocabulary!r}, **flags)
        local.create(config, {source!r}, [{output!r}], int(sys.argv[1]))
    except InputError as error:
        sys.exit(str(error))
"""


@pytest.fixture
def files(tmp_path, vocab_file):
    """Returns the paths of a vocabulary and of a text."""
    source = tmp_path / "corpus.txt"
    source.write_text(text_of(corpus(200)), encoding="utf-8")
    return vocab_file, str(source)


def contents(folder):
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}


@pytest.fixture
def expected(files, tmp_path):
    vocabulary, source = files
    output = tmp_path / "expected" / "a.tfrecord"
    local.create(RecordsConfig(vocabulary, **MANY_SEGMENTS), source, [str(output)], 1)
    return contents(output.parent)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4])
def test_any_number_of_workers_writes_the_same_bytes(
    files, expected, tmp_path, monkeypatch, workers
):
    monkeypatch.setattr(local, "_BYTES_PER_WORKER", 1)
    vocabulary, source = files
    output = tmp_path / "workers" / "a.tfrecord"
    local.create(RecordsConfig(vocabulary, **MANY_SEGMENTS), source, [str(output)], workers)
    assert contents(output.parent) == expected


@pytest.fixture
def beam():
    pytest.importorskip("apache_beam", reason="needs the [beam] extra")
    from bert_tf.data_prep.runners import beam

    return beam


def test_beam_writes_the_same_bytes(files, expected, tmp_path, beam):
    vocabulary, source = files
    output = tmp_path / "beam" / "a.tfrecord"
    config = RecordsConfig(vocabulary, **MANY_SEGMENTS)
    reports = beam.create(config, source, [str(output)], ["--runner=DirectRunner"])
    assert reports["train"]["examples"] > 1000
    assert contents(output.parent) == expected
    assert beam.create(config, source, [str(output)], []) == {}


@pytest.mark.slow
def test_beam_in_several_processes_writes_the_same_bytes(files, expected, tmp_path, beam):
    vocabulary, source = files
    output = tmp_path / "beam" / "a.tfrecord"
    config = RecordsConfig(vocabulary, **MANY_SEGMENTS)
    options = ["--runner=FnApiRunner", "--direct_running_mode=multi_processing"]
    beam.create(config, source, [str(output)], [*options, "--direct_num_workers=2"])
    assert contents(output.parent) == expected


def test_beam_refuses_options_that_it_cannot_use(files, tmp_path, beam):
    vocabulary, source = files
    output = [str(tmp_path / "new" / "a")]
    with pytest.raises(InputError, match=r"beam_options cannot be used: .*NoRunner"):
        beam.create(RecordsConfig(vocabulary), source, output, ["--runner=NoRunner"])
    assert not (tmp_path / "new").exists()


def test_beam_keeps_complete_shards_after_a_failure(files, expected, tmp_path, monkeypatch, beam):
    vocabulary, source = files
    output = tmp_path / "beam" / "a.tfrecord"
    arguments = RecordsConfig(vocabulary, **MANY_SEGMENTS), source, [str(output)], []
    assemble, assembled = stages.assemble_shard, []

    def fail_in_the_third_shard(*each):
        if len(assembled) == 2:
            raise RuntimeError("a machine is lost")
        assembled.append(each[3])
        assemble(*each)

    monkeypatch.setattr(stages, "assemble_shard", fail_in_the_third_shard)
    with pytest.raises(RuntimeError, match="a machine is lost"):
        beam.create(*arguments)
    left = {path.name for path in (output.parent / ".a.parts").iterdir()}
    assert sum(name.startswith("shard-") for name in left) == 2
    assert not any(name.startswith("part-") for name in left)
    assert not (output.parent / "a.COMPLETED").exists()
    first = list(assembled)
    assembled.clear()
    monkeypatch.setattr(
        stages, "assemble_shard", lambda *each: (assembled.append(each[3]), assemble(*each))
    )
    assert beam.create(*arguments)
    assert len(assembled) == 2 and not set(assembled) & set(first)
    assert contents(output.parent) == expected


def test_beam_changes_no_file_before_the_input_is_checked(files, tmp_path, beam):
    vocabulary, source = files
    output = tmp_path / "beam" / "a.tfrecord"
    config = RecordsConfig(vocabulary, dupe_factor=1)
    local.create(config, source, [str(output)], 1)
    before = contents(output.parent)
    (tmp_path / "one.txt").write_text("waa wab\n")
    arguments = config, str(tmp_path / "one.txt"), [str(output)], []
    with pytest.raises(InputError, match="created with another input"):
        beam.create(*arguments)
    with pytest.raises(InputError, match="is one document"):
        beam.create(*arguments, overwrite=True)
    paragraph = " ".join(WORDS)
    (tmp_path / "one.txt").write_text(f"{paragraph}\n\n{paragraph}\n{paragraph}\n")
    with pytest.raises(InputError, match="Truncation to --max_seq_length=128 removes"):
        beam.create(*arguments, overwrite=True)
    assert contents(output.parent) == before
    (tmp_path / "one.txt").write_text("waa wab\n")
    with pytest.raises(InputError, match="is one document"):
        beam.create(config, str(tmp_path / "one.txt"), [str(tmp_path / "new" / "a")], [])
    assert not (tmp_path / "new").exists()


def test_beam_reports_bad_input_like_the_local_runner(files, tmp_path, beam):
    vocabulary, _ = files
    (tmp_path / "latin.txt").write_bytes(b"waa\nwab\n\nwac\xe9\n")
    (tmp_path / "broken.txt").symlink_to("/nonexistent")
    config, output = RecordsConfig(vocabulary), [str(tmp_path / "new/a.tfrecord")]
    for name, words in (
        ("latin.txt", "is not UTF-8: byte 0xe9 in line 4. Convert it first."),
        ("brok*", "broken.txt cannot be read: No such file or directory."),
    ):
        messages = []
        for create, last in ((local.create, 1), (beam.create, [])):
            with pytest.raises(InputError) as caught:
                create(config, str(tmp_path / name), output, last)
            messages.append(str(caught.value))
        assert messages[0] == messages[1] and messages[0].endswith(words), messages
    assert not (tmp_path / "new").exists()


def test_intermediate_files_of_another_job_are_not_used(files, expected, tmp_path, monkeypatch):
    vocabulary, source = files
    output = tmp_path / "out" / "a.tfrecord"
    config = RecordsConfig(vocabulary, **MANY_SEGMENTS)

    def killed(*_):
        raise WorkerKilledError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(stages, "mask_part", killed)
        for each in (config, dataclasses.replace(config, random_seed=1)):
            with pytest.raises(InputError, match="killed"):
                local.create(each, source, [str(output)], 1)
            # An interrupted run on Beam leaves this folder.
            (output.parent / ".a.parts").mkdir(exist_ok=True)
            if each is config:
                identity = (output.parent / ".a.work/identity").read_bytes()
                (output.parent / ".a.parts/identity").write_bytes(identity)
    local.create(config, source, [str(output)], 1)
    assert contents_of_files(output.parent) == expected


@pytest.mark.parametrize("runner", ["local", "beam"])
def test_a_second_run_of_the_same_output_is_refused(files, tmp_path, request, runner):
    vocabulary, source = files
    create, last = local.create, 1
    if runner == "beam":
        create, last = request.getfixturevalue("beam").create, []
    (tmp_path / "out" / ".a.work").mkdir(parents=True)
    with open(tmp_path / "out" / ".a.work" / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="Another process is writing"):
            create(RecordsConfig(vocabulary), source, [str(tmp_path / "out/a.tfrecord")], last)
    assert os.listdir(tmp_path / "out") == [".a.work"]


def test_a_work_folder_shows_what_it_is_until_its_end(tmp_path, monkeypatch):
    for name in ("identity", "lock", "rows-0", "a.tmp"):
        (tmp_path / name).write_text(name)
    with monkeypatch.context() as context:
        context.setattr(work_folder.shutil, "rmtree", lambda *_, **__: None)  # as if killed
        work_folder.remove(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["identity", "lock"]
    for _ in range(2):
        work_folder.remove(str(tmp_path))
        assert not tmp_path.exists()


def workers_of(process):
    """Returns the process ids of the workers; a worker is found by its command line."""
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [
        int(child)
        for child in children.split()
        if b"spawn_main" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes()
    ]


@pytest.mark.slow
def test_a_run_that_is_killed_at_any_moment_resumes(files, expected, tmp_path):
    vocabulary, source = files
    output = tmp_path / "killed" / "a.tfrecord"
    script = tmp_path / "run.py"
    script.write_text(
        PROGRAM.format(
            flags=MANY_SEGMENTS, vocabulary=vocabulary, source=source, output=str(output)
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
            [sys.executable, str(script), str(workers)], cwd=ROOT, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=environment,
        )  # fmt: skip
        # The imports take seconds and the work takes under a second: wait until the work begins.
        assert process.stdout.readline() == b"ready\n"
        time.sleep(rng.random() * 0.6)
        with contextlib.suppress(OSError, IndexError):
            chosen = process.pid if victim == "parent" else rng.choice(workers_of(process))
            os.kill(chosen, signal.SIGKILL)
        _, stderr = process.communicate(timeout=120)
        if process.returncode:
            plan.pop()
            assert process.returncode == (-signal.SIGKILL if victim == "parent" else 1), stderr
            assert victim == "parent" or b"A worker process was killed" in stderr.splitlines()[-1]
        if (output.parent / "a.COMPLETED").exists():
            written = contents_of_files(output.parent)
            assert {name: written[name] for name in expected} == expected
            shutil.rmtree(output.parent)
    subprocess.run(
        [sys.executable, str(script), "1"], cwd=ROOT, check=True, capture_output=True,
        env=environment,
    )  # fmt: skip
    assert contents(output.parent) == expected


SIGNALLED = """
import sys
from bert_tf import command_line
from bert_tf.data_prep import create_pretraining_data
from bert_tf.data_prep.runners import local
if __name__ == "__main__":
    local._BYTES_PER_WORKER = 1
    run = local._run
    def begin(workers, files, name, *arguments):
        if name == "pairing":
            print("ready", flush=True)
        run(workers, files, name, *arguments)
    local._run = begin
    command_line.run(create_pretraining_data.main)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_a_signal_ends_says_how_to_continue(files, tmp_path, number):
    vocabulary, source = files
    (tmp_path / "run.py").write_text(SIGNALLED)
    names = ("interrupted", "uninterrupted")
    flags = [f"--input_file={source}", f"--vocab_file={vocabulary}", "--num_workers=2"]
    commands = [
        [sys.executable, f"{tmp_path}/run.py", *flags, f"--output_file={tmp_path}/{name}/a"]
        for name in names
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": ROOT}
    # `nohup pytest` would pass an ignored SIGHUP to child processes.
    group = {"start_new_session": True, "preexec_fn": lambda: signal.signal(number, signal.SIG_DFL)}
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


def test_tokenized_text_is_kept_after_a_killed_worker(files, expected, tmp_path, monkeypatch):
    vocabulary, source = files
    output = tmp_path / "killed" / "a.tfrecord"
    arguments = RecordsConfig(vocabulary, **MANY_SEGMENTS), source, [str(output)], 1

    def killed(*_):
        raise WorkerKilledError("A worker process was killed.")

    with monkeypatch.context() as patched:
        patched.setattr(stages, "pair_segment", killed)
        with pytest.raises(InputError, match="killed"):
            local.create(*arguments)
    folder = output.parent / ".a.work"
    documents = {path: path.stat().st_mtime_ns for path in folder.glob("documents-*")}
    assert documents
    with monkeypatch.context() as patched:
        patched.setattr(stages, "read_segment", killed)
        local.create(*arguments)
    assert contents(output.parent) == expected


def contents_of_files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("change", [None, "truncate", "remove"])
def test_a_shard_that_changed_since_an_interrupted_run_is_created_again(
    files, expected, tmp_path, monkeypatch, change
):
    vocabulary, source = files
    output = tmp_path / "out" / "a.tfrecord"
    arguments = RecordsConfig(vocabulary, **MANY_SEGMENTS), source, [str(output)], 1
    assemble, assembled = stages.assemble_shard, []

    def fail_in_the_last_shard(*each):
        if len(assembled) == 3:
            raise WorkerKilledError("killed")
        assembled.append(pathlib.Path(each[3]))
        assemble(*each)

    with monkeypatch.context() as patched:
        patched.setattr(stages, "assemble_shard", fail_in_the_last_shard)
        with pytest.raises(InputError, match="killed"):
            local.create(*arguments)
    if change == "truncate":
        assembled[1].write_bytes(assembled[1].read_bytes()[:-1])
    elif change == "remove":
        assembled[1].unlink()
    again = []
    with monkeypatch.context() as patched:
        patched.setattr(
            stages, "assemble_shard",
            lambda *each: (again.append(pathlib.Path(each[3])), assemble(*each)),
        )  # fmt: skip
        local.create(*arguments)
    assert (assembled[1] in again) == (change is not None)
    assert not {assembled[0], assembled[2]} & set(again) and len(again) == 1 + bool(change)
    assert contents(output.parent) == expected


def test_the_folder_of_every_output_is_created(tmp_path):
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]) + "\n")
    (tmp_path / "text").write_text("a b a\nb a b\n\nb b a\na a b\n")
    outputs = [str(tmp_path / "x/a.tfrecord"), str(tmp_path / "y/b.tfrecord")]
    config = RecordsConfig(str(vocab), max_seq_length=32, max_predictions_per_seq=5)
    local.create(config, str(tmp_path / "text"), outputs, num_workers=1)
    assert all(os.path.getsize(path) for path in outputs)
