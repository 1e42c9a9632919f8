"""Any number of workers, any runner, killed or not: the same bytes."""

import collections
import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from bert_tf.errors import InputError
from data_prep.pretraining_data.settings import RecordsConfig
from data_prep.runners import local, shards, stages
from data_prep.runners.workers import WorkerKilledError, Workers

ROOT = pathlib.Path(__file__).parents[2]
WORDS = [f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(300)]
# Many segments of little text, so that every step has several tasks.
MANY_SEGMENTS = {
    "segment_bytes": 20000, "pool_bytes": 70000, "dupe_factor": 3, "eval_fraction": 0.2,
    "num_output_shards": 3,
}  # fmt: skip
PROGRAM = """
import sys
from bert_tf.errors import InputError
from data_prep.pretraining_data.settings import RecordsConfig
from data_prep.runners import local
if __name__ == "__main__":
    local._BYTES_PER_WORKER = 1
    read = local._read
    def begin(*arguments):
        print("ready", flush=True)
        read(*arguments)
    local._read = begin
    flags = {flags!r}
    try:
        config = RecordsConfig({vocabulary!r}, **flags)
        local.create(config, {source!r}, [{output!r}], int(sys.argv[1]))
    except InputError as error:
        sys.exit(str(error))
"""


@pytest.fixture
def files(tmp_path):
    vocabulary, source = tmp_path / "vocab.txt", tmp_path / "corpus.txt"
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##x"]
    vocabulary.write_text("\n".join(tokens) + "\n", encoding="utf-8")
    rng = random.Random(7)
    documents = [
        "\n".join(
            " ".join(rng.choices(WORDS, k=rng.randint(1, 25))) for _ in range(rng.randint(1, 30))
        )
        for _ in range(200)
    ]
    source.write_text("\n\n".join(documents), encoding="utf-8")
    return str(vocabulary), str(source)


def contents(folder):
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}


@pytest.fixture
def undisturbed(files, tmp_path):
    vocabulary, source = files
    output = tmp_path / "undisturbed" / "a.tfrecord"
    local.create(RecordsConfig(vocabulary, **MANY_SEGMENTS), source, [str(output)], 1)
    return contents(output.parent)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4])
def test_any_number_of_workers(files, undisturbed, tmp_path, monkeypatch, workers):
    monkeypatch.setattr(local, "_BYTES_PER_WORKER", 1)
    vocabulary, source = files
    output = tmp_path / "workers" / "a.tfrecord"
    local.create(RecordsConfig(vocabulary, **MANY_SEGMENTS), source, [str(output)], workers)
    assert contents(output.parent) == undisturbed


@pytest.fixture
def beam():
    pytest.importorskip("apache_beam", reason="needs the [beam] extra")
    from data_prep.runners import beam

    return beam


def test_beam(files, undisturbed, tmp_path, beam):
    vocabulary, source = files
    output = tmp_path / "beam" / "a.tfrecord"
    config = RecordsConfig(vocabulary, **MANY_SEGMENTS)
    reports = beam.create(config, source, [str(output)], ["--runner=DirectRunner"])
    assert reports["train"]["examples"] > 1000
    assert contents(output.parent) == undisturbed
    assert beam.create(config, source, [str(output)], []) == {}


def test_beam_goes_on_after_a_failure(files, undisturbed, tmp_path, monkeypatch, beam):
    vocabulary, source = files
    output = tmp_path / "beam" / "a.tfrecord"
    arguments = RecordsConfig(vocabulary, **MANY_SEGMENTS), source, [str(output)], []
    assemble, assembled = shards.assemble, []

    def fails_in_the_third(parts, path, compression):
        if len(assembled) == 2:
            raise RuntimeError("a machine is lost")
        assembled.append(path)
        return assemble(parts, path, compression)

    monkeypatch.setattr(shards, "assemble", fails_in_the_third)
    with pytest.raises(RuntimeError, match="a machine is lost"):
        beam.create(*arguments)
    left = {path.name for path in (output.parent / ".a.parts").iterdir()}
    assert sum(name.startswith("shard-") for name in left) == 2
    assert not any(name.startswith("part-") for name in left)
    assert not (output.parent / "a.COMPLETED").exists()
    first = list(assembled)
    assembled.clear()
    monkeypatch.setattr(
        shards, "assemble", lambda *each: (assembled.append(each[1]), assemble(*each))[1]
    )
    assert beam.create(*arguments)
    assert len(assembled) == 2 and not set(assembled) & set(first)
    assert contents(output.parent) == undisturbed


def test_beam_touches_nothing_before_the_input_is_found_good(files, tmp_path, beam):
    vocabulary, source = files
    output = tmp_path / "beam" / "a.tfrecord"
    config = RecordsConfig(vocabulary, dupe_factor=1)
    local.create(config, source, [str(output)], 1)
    before = contents(output.parent)
    (tmp_path / "one.txt").write_text("waa wab\n")
    arguments = config, str(tmp_path / "one.txt"), [str(output)], []
    with pytest.raises(InputError, match="made with another input"):
        beam.create(*arguments)
    with pytest.raises(InputError, match="is one document"):
        beam.create(*arguments, overwrite=True)
    assert contents(output.parent) == before
    with pytest.raises(InputError, match="is one document"):
        beam.create(config, str(tmp_path / "one.txt"), [str(tmp_path / "new" / "a")], [])
    assert not (tmp_path / "new").exists()


def test_beam_says_of_bad_input_what_the_local_runner_says(files, tmp_path, beam):
    vocabulary, _ = files
    (tmp_path / "latin.txt").write_bytes(b"waa\nwab\n\nwac\xe9\n")
    (tmp_path / "broken.txt").symlink_to("/nonexistent")
    config, output = RecordsConfig(vocabulary), [str(tmp_path / "new/a.tfrecord")]
    for name, words in (
        ("latin.txt", "is not UTF-8: byte 0xe9 in line 4. Convert it first."),
        ("brok*", "broken.txt cannot be read: No such file or directory."),
    ):
        said = []
        for create, last in ((local.create, 1), (beam.create, [])):
            with pytest.raises(InputError) as caught:
                create(config, str(tmp_path / name), output, last)
            said.append(str(caught.value))
        assert said[0] == said[1] and said[0].endswith(words), said
    assert not (tmp_path / "new").exists()


def test_what_another_job_left_is_not_taken_for_ones_own(files, undisturbed, tmp_path, monkeypatch):
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
            # As Beam leaves it.
            (output.parent / ".a.parts").mkdir(exist_ok=True)
            if each is config:
                identity = (output.parent / ".a.work/identity").read_bytes()
                (output.parent / ".a.parts/identity").write_bytes(identity)
    local.create(config, source, [str(output)], 1)
    assert contents_of_files(output.parent) == undisturbed


@pytest.mark.parametrize("runner", ["local", "beam"])
def test_one_run_at_a_time(files, tmp_path, request, runner):
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


def workers_of(process):
    """Ids of the worker processes, by what they were started with."""
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [
        int(child)
        for child in children.split()
        if b"spawn_main" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes()
    ]


@pytest.mark.slow
def test_killed_at_any_moment(files, undisturbed, tmp_path):
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
        # Imports take seconds, the work less than one: wait for the work to begin.
        assert process.stdout.readline() == b"ready\n"
        time.sleep(rng.random() * 0.6)
        with contextlib.suppress(OSError, IndexError):
            chosen = process.pid if victim == "parent" else rng.choice(workers_of(process))
            os.kill(chosen, signal.SIGKILL)
        _, said = process.communicate()
        if process.returncode:
            plan.pop()
            assert process.returncode == (-signal.SIGKILL if victim == "parent" else 1), said
            assert victim == "parent" or b"A worker process was killed" in said.splitlines()[-1]
        if (output.parent / "a.COMPLETED").exists():
            made = contents_of_files(output.parent)
            assert {name: made[name] for name in undisturbed} == undisturbed
            shutil.rmtree(output.parent)
    subprocess.run(
        [sys.executable, str(script), "1"], cwd=ROOT, check=True, capture_output=True,
        env=environment,
    )  # fmt: skip
    assert contents(output.parent) == undisturbed


def test_a_killed_worker_costs_no_tokenized_text(files, undisturbed, tmp_path, monkeypatch):
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
    assert contents(output.parent) == undisturbed


def end_at_once():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_killed_worker_is_named():
    with Workers(2) as workers, pytest.raises(WorkerKilledError, match=r"memory ran out .`dmesg`"):
        list(workers.run(collections.deque([(end_at_once, ())] * 9)))


def contents_of_files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_a_shard_that_is_gone_is_not_taken_for_made(tmp_path):
    shard, marker = tmp_path / "a.tfrecord", tmp_path / "shard-train-0"
    shard.write_bytes(b"12345")
    marker.write_text(json.dumps({"bytes": 5}))
    assert local._is_made(str(shard), str(marker))
    shard.write_bytes(b"1234")
    assert not local._is_made(str(shard), str(marker))
    assert not marker.exists()


def test_a_second_output_gets_its_folder_too(tmp_path):
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]) + "\n")
    (tmp_path / "text").write_text("a b a\nb a b\n\nb b a\na a b\n")
    outputs = [str(tmp_path / "x/a.tfrecord"), str(tmp_path / "y/b.tfrecord")]
    config = RecordsConfig(str(vocab), max_seq_length=32, max_predictions_per_seq=5)
    local.create(config, str(tmp_path / "text"), outputs, num_workers=1)
    assert all(os.path.getsize(path) for path in outputs)
