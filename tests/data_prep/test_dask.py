"""Record creation on a Dask cluster: equal bytes, lost processes, refused clusters."""

import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
import tiny_corpus
from refusals import refused
from run_programs import assert_refused, run_mains
from tiny_corpus import MANY_SEGMENTS, VOCABULARY, contents

from bert_tf.record_jobs import dask
from bert_tf.record_jobs.base import create_records

distributed = pytest.importorskip("distributed", reason="needs the [dask] extra")
ROOT = pathlib.Path(__file__).parents[2]
# Makes a worker state another version of bert-tf, and the true ones of other packages.
OTHER_VERSION = """
from importlib import metadata
metadata.version = lambda name: (
    "0.0" if name == "bert-tf" else metadata.distribution(name).version
)
"""


class Cluster:
    """A scheduler and workers, each its own process, linked by TCP on 127.0.0.1."""

    def __init__(self, folder):
        self._folder, self.file = folder, str(folder / "scheduler.json")
        self.processes = []
        self._start(
            "scheduler", "--host=127.0.0.1", "--port=0", f"--scheduler-file={self.file}"
        )
        deadline = time.monotonic() + 60
        while not os.path.exists(self.file):
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def _start(self, kind, *flags, prefix=()):
        command = [
            *prefix, sys.executable, "-m", f"distributed.cli.dask_{kind}", *flags,
            "--no-dashboard",
        ]  # fmt: skip
        log = (self._folder / f"{len(self.processes)}.log").open("wb")
        self.processes.append(
            subprocess.Popen(
                command, cwd=self._folder, stdout=log, stderr=log,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
            )
        )  # fmt: skip

    def add_worker(self, *flags, threads=1, prefix=()):
        self._start(
            "worker", f"--scheduler-file={self.file}", f"--nthreads={threads}",
            "--host=127.0.0.1",
            f"--local-directory={self._folder}", *flags, prefix=prefix,
        )  # fmt: skip

    def kill(self, number):
        os.killpg(self.processes[number].pid, signal.SIGKILL)
        self.processes[number].wait()

    def close(self):
        for number, process in enumerate(self.processes):
            if process.poll() is None:
                self.kill(number)


@pytest.fixture
def cluster(tmp_path_factory):
    started = Cluster(tmp_path_factory.mktemp("cluster"))
    yield started
    started.close()


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory):
    """A cluster whose processes no test may kill."""
    started = Cluster(tmp_path_factory.mktemp("two_workers"))
    for _ in range(2):
        started.add_worker()
    yield started
    started.close()


def create(job, output, cluster, secs=60):
    arguments = dask.shared_paths(job.config, job.source, [str(output)])
    with dask.DaskRunner(cluster.file, secs) as runner:
        return create_records(runner, *arguments)


@pytest.mark.medium
def test_dask_writes_the_same_bytes(job, tmp_path, two_workers, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the workers have another working directory
    assert create(job, "a.tfrecord", two_workers)["train"]["examples"] > 1000
    assert contents(tmp_path) == job.expected
    assert create(job, "a.tfrecord", two_workers) == {}


def program(job, output, *flags):
    return "bert_tf.data_prep.create_pretraining_data", [
        f"--input_file={job.source}", f"--vocab_file={job.config.vocab_file}",
        f"--output_file={output}", "--runner=dask", *flags,
    ]  # fmt: skip


def test_bad_clusters_are_refused_in_one_line(job, tmp_path):
    output = tmp_path / "a.tfrecord"
    rows = [
        (["--dask_scheduler=tcp://127.0.0.1:1", "--dask_timeout_secs=1"],
         ["of tcp://127.0.0.1:1 has no scheduler or no worker after 1 s"]),
        (["--dask_scheduler=no_such_file"],
         ["of no_such_file has no scheduler", "port"]),
        ([], ["--runner=dask and --dask_scheduler go together"]),
        (["--dask_scheduler=tcp://127.0.0.1:1", "--output_file=gs://bucket/a"],
         ["files that all workers see", "gs://bucket/a"]),
    ]  # fmt: skip
    results = run_mains(
        [program(job, output, *flags) for flags, _ in rows], tmp_path, secs=60
    )
    for result, (_, words) in zip(results, rows, strict=True):
        assert_refused(result, *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_workers_that_differ_are_refused(job, tmp_path, tmp_path_factory, cluster):
    with refused("has no scheduler or no worker after 2 s"):
        create(job, tmp_path / "a.tfrecord", cluster, secs=2)
    preload = tmp_path_factory.mktemp("preload") / "other.py"
    preload.write_text(OTHER_VERSION)
    for words, settings in [
        (r"has 2 threads\. Start each worker with --nthreads=1", {"threads": 2}),
        (
            "A worker of Dask has bert-tf 0.0 with Python",
            {"flags": [f"--preload={preload}"]},
        ),
    ]:
        cluster.add_worker(*settings.pop("flags", []), **settings)
        with refused(words):
            create(job, tmp_path / "a.tfrecord", cluster)
        cluster.kill(-1)
    assert contents(tmp_path) == {}


@pytest.mark.slow
def test_a_worker_that_does_not_see_the_folder_is_refused(job, tmp_path, cluster):
    mount = f'mount -t tmpfs tmpfs {tmp_path} && exec "$0" "$@"'
    prefix = ["unshare", "--mount", "sh", "-c", mount]
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    cluster.add_worker(prefix=prefix)
    with refused(f"does not see {tmp_path}/.a.work/.* Give an output_file"):
        create(job, tmp_path / "a.tfrecord", cluster)
    assert contents(tmp_path) == {}


class Run:
    """The program as its own process, which waits at its first progress line."""

    def __init__(self, job, output, cluster):
        (script := output.parent / "run.py").write_text(
            "import sys\nfrom bert_tf.record_creation.records_config import "
            "RecordsConfig\nfrom bert_tf.record_jobs import dask, "
            "base as runner\n"
            "from bert_tf.errors import InputError\nprepare = "
            "runner.prepare\ndef begin(*arguments):\n    print('ready', "
            "flush=True)\n    return prepare(*arguments)\nrunner.prepare = begin\n"
            f"try:\n    config = RecordsConfig({job.config.vocab_file!r}, "
            f"**{MANY_SEGMENTS!r})\n    each = dask.DaskRunner({cluster.file!r}, 5)\n"
            f"    runner.create_records(each, config, {job.source!r}, "
            f"[{str(output)!r}])\nexcept InputError as error:\n"
            "    sys.exit(str(error))\n"
        )
        self.process = subprocess.Popen(
            [sys.executable, script],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
        )
        assert self.process.stdout.readline() == b"ready\n"

    def end(self):
        _, error = self.process.communicate(timeout=120)
        return self.process.returncode, error.decode()


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["worker", "all workers", "program", "scheduler"])
def test_a_killed_process_does_not_change_the_records(
    job, tmp_path, tmp_path_factory, victim
):
    output = tmp_path / "out" / "a.tfrecord"
    output.parent.mkdir()
    cluster = Cluster(tmp_path_factory.mktemp("first"))
    try:
        for _ in range(2):
            cluster.add_worker()
        run = Run(job, output, cluster)
        time.sleep(0.3)
        if victim == "program":
            run.process.kill()
        for number in {"worker": [1], "all workers": [1, 2], "scheduler": [0]}.get(
            victim, []
        ):
            cluster.kill(number)
        code, error = run.end()
        if victim == "worker":
            assert code == 0, error
        else:
            assert code != 0
            assert victim == "program" or re.search(
                "has had no worker for 5 s|connection to the Dask scheduler was lost",
                error,
            )
            assert not (output.parent / "a.COMPLETED").exists()
    finally:
        cluster.close()
    if victim != "worker":
        other = Cluster(tmp_path_factory.mktemp("second"))
        try:
            other.add_worker()
            create(job, output, other)
        finally:
            other.close()
    (output.parent / "run.py").unlink()
    assert contents(output.parent) == job.expected


@pytest.mark.medium
def test_bad_input_ends_the_run_at_once(job, tmp_path, two_workers):
    (tmp_path / "a.txt").write_bytes(b"waa\nwab\n\nwac\xe9\n")
    for number in range(10):
        shutil.copy(job.source, tmp_path / f"b{number}.txt")
    before = sorted(os.listdir(tmp_path))
    bad = job._replace(source=f"{tmp_path}/a.txt,{tmp_path}/b*.txt")
    for _ in range(3):
        with refused(r"a.txt is not UTF-8: .* Convert it first\.$"):
            create(bad, tmp_path / "a.tfrecord", two_workers)
        assert [
            name for name in sorted(os.listdir(tmp_path)) if name[0] != "."
        ] == before


@pytest.mark.medium
def test_workers_read_a_vocabulary_that_has_changed(job, tmp_path, two_workers):
    changed = dataclasses.replace(job.config, vocab_file=str(tmp_path / "vocab.txt"))
    for name, entries in [
        ("one", VOCABULARY),
        ("two", [*VOCABULARY[:5], *VOCABULARY[:4:-1]]),
    ]:
        (tmp_path / "vocab.txt").write_text("\n".join(entries) + "\n")
        output = tmp_path / name / "a.tfrecord"
        create(job._replace(config=changed), output, two_workers)
        tiny_corpus.create(changed, job.source, tmp_path / f"local-{name}/a.tfrecord")
        expected = shards(tmp_path / f"local-{name}")
        assert len(expected) == 4 and shards(tmp_path / name) == expected


def shards(folder):
    return {
        name: data
        for name, data in contents(folder).items()
        if name.endswith(".tfrecord")
    }
