"""If the disk is full, a run reports one error, leaves no partial file, can resume."""

import errno
import json
import pathlib
import subprocess
import sys

import pytest
import tensorflow as tf
from refusals import refused
from tiny_corpus import MANY_SEGMENTS, contents, create

from bert_tf.record_jobs import outputs, stages

ROOT = pathlib.Path(__file__).parents[2]
# This program creates records on a small tmpfs and enlarges the tmpfs after each
# failure.
ON_A_SMALL_DISK = """
import json, os, subprocess, sys
from bert_tf.errors import InputError
from bert_tf.record_creation.records_config import RecordsConfig
from bert_tf.record_jobs import local, base
vocabulary, source, folder, flags = json.loads(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", folder], check=True)
steps, size = [], 16
while True:
    try:
        config = RecordsConfig(vocabulary, **flags)
        with local.LocalRunner(1) as each:
            base.create_records(each, config, source, [folder + "/a.tfrecord"])
        break
    except InputError as error:
        steps.append([str(error), [name for name in os.listdir(folder) if name[0] != "."]])
    size += 48
    subprocess.run(["mount", "-o", f"remount,size={size}k", folder], check=True)
contents = {name: open(f"{folder}/{name}", "rb").read().hex() for name in os.listdir(folder)}
print(json.dumps([steps, contents]))
"""


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def full_in_tensorflow(*_, **__):
    raise tf.errors.ResourceExhaustedError(None, None, "/x/y; No space left on device")


@pytest.mark.parametrize(
    ("module", "name", "error"),
    [
        (tf.io.TFRecordWriter, "write", full_in_tensorflow),
        (stages, "assemble_shard", full),
        (outputs.files, "write_json", full),
    ],
)
def test_a_full_disk_in_a_stage_is_reported_and_the_run_resumes(
    job, tmp_path, monkeypatch, module, name, error
):
    real, calls = getattr(module, name), []

    def limited(*args, **kwargs):
        calls.append(name)
        return (real if len(calls) == 1 else error)(*args, **kwargs)

    arguments = job.config, job.source, f"{tmp_path}/a.tfrecord"
    with monkeypatch.context() as patched:
        patched.setattr(module, name, limited)
        with refused(r"^The disk is full.*resumes where"):
            create(*arguments)
    assert contents(tmp_path).items() <= job.expected.items()
    create(*arguments)
    assert contents(tmp_path) == job.expected


@pytest.mark.slow
def test_a_run_resumes_each_time_after_the_disk_was_full(job, tmp_path):
    namespace = ["unshare", "--mount", "--map-root-user"]
    (tmp_path / "small").mkdir()
    probe = ["mount", "-t", "tmpfs", "none", str(tmp_path / "small")]
    try:
        possible = (
            subprocess.run([*namespace, *probe], capture_output=True).returncode == 0
        )
    except FileNotFoundError:
        possible = False
    if not possible:
        pytest.skip("needs a user namespace to mount a small file system in")
    arguments = json.dumps(
        [job.config.vocab_file, job.source, f"{tmp_path}/small", MANY_SEGMENTS]
    )
    done = subprocess.run(
        [*namespace, sys.executable, "-c", ON_A_SMALL_DISK, arguments],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    steps, final = json.loads(done.stdout.splitlines()[-1])
    assert {
        name: bytes.fromhex(content) for name, content in final.items()
    } == job.expected
    assert len(steps) > 4
    for message, visible in steps:
        assert "\n" not in message
        assert "disk is full" in message or "No space left" in message, message
        assert "a.COMPLETED" not in visible and set(visible) <= set(job.expected)
