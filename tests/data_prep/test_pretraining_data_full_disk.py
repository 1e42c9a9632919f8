"""If the disk becomes full, a run reports one error, leaves no partial file and can resume."""

import errno
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tiny_corpus import MANY_SEGMENTS, corpus, text_of

from bert_tf.data_prep.pretraining_data.settings import RecordsConfig
from bert_tf.data_prep.runners import local, outputs, shuffling, stages
from bert_tf.errors import InputError

ROOT = pathlib.Path(__file__).parents[2]
# This program creates records on a small tmpfs and enlarges the tmpfs after each failure.
ON_A_SMALL_DISK = """
import json, os, subprocess, sys
from bert_tf.errors import InputError
from bert_tf.data_prep.pretraining_data.settings import RecordsConfig
from bert_tf.data_prep.runners import local
vocabulary, source, folder, flags = json.loads(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", folder], check=True)
steps, size = [], 16
while True:
    try:
        local.create(RecordsConfig(vocabulary, **flags), source, [folder + "/a.tfrecord"], 1)
        break
    except InputError as error:
        names, cause = [], error
        while cause is not None:
            at = cause.__traceback__
            while at is not None:
                names.append(at.tb_frame.f_code.co_name)
                at = at.tb_next
            cause = cause.__cause__ or cause.__context__
        visible = [name for name in os.listdir(folder) if name[0] != "."]
        steps.append([str(error), names, visible])
    size += 48
    subprocess.run(["mount", "-o", f"remount,size={size}k", folder], check=True)
contents = {name: open(f"{folder}/{name}", "rb").read().hex() for name in os.listdir(folder)}
print(json.dumps([steps, contents]))
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text(text_of(corpus(150)), encoding="utf-8")
    return str(path)


@pytest.fixture
def config(vocab_file):
    return RecordsConfig(vocab_file, **MANY_SEGMENTS)


def contents(folder):
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}


@pytest.fixture
def expected(tmp_path, config, source):
    local.create(config, source, [str(tmp_path / "expected/a.tfrecord")], 1)
    return contents(tmp_path / "expected")


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def full_in_tensorflow(*_, **__):
    raise tf.errors.ResourceExhaustedError(None, None, "/x/y; No space left on device")


@pytest.mark.parametrize(
    ("module", "name", "error"),
    [
        (np, "savez", full),
        (shuffling, "save_rows", full),
        (tf.io.TFRecordWriter, "write", full_in_tensorflow),
        (stages, "assemble_shard", full),
        (stages, "write_bytes", full),
        (shuffling.files, "write_bytes", full),
        (outputs.files, "write_json", full),
    ],
)
@pytest.mark.parametrize("successes", [0, 2])
def test_a_full_disk_in_a_stage_is_reported_and_the_run_resumes(
    tmp_path, monkeypatch, config, source, expected, module, name, error, successes
):
    real, calls = getattr(module, name), []

    def limited(*args, **kwargs):
        calls.append(name)
        return (real if len(calls) <= successes else error)(*args, **kwargs)

    output = tmp_path / "out/a.tfrecord"
    with monkeypatch.context() as patched:
        patched.setattr(module, name, limited)
        if name == "write_json" and successes == 2:
            local.create(config, source, [str(output)], 1)
        else:
            with pytest.raises(InputError, match=r"^The disk is full.*resumes where"):
                local.create(config, source, [str(output)], 1)
    for path, content in contents_of_files(output.parent).items():
        assert content == expected[path], f"{path} is incomplete"
    local.create(config, source, [str(output)], 1)
    assert contents(output.parent) == expected


def contents_of_files(folder):
    return {path.name: path.read_bytes() for path in folder.glob("[!.]*")}


@pytest.mark.slow
def test_a_run_resumes_each_time_after_the_disk_was_full(tmp_path, config, source, expected):
    namespace = ["unshare", "--mount", "--map-root-user"]
    (tmp_path / "small").mkdir()
    probe = ["mount", "-t", "tmpfs", "none", str(tmp_path / "small")]
    try:
        possible = subprocess.run([*namespace, *probe], capture_output=True).returncode == 0
    except FileNotFoundError:
        possible = False
    if not possible:
        pytest.skip("needs a user namespace to mount a small file system in")
    arguments = json.dumps([config.vocab_file, source, str(tmp_path / "small"), MANY_SEGMENTS])
    done = subprocess.run(
        [*namespace, sys.executable, "-c", ON_A_SMALL_DISK, arguments],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    steps, final = json.loads(done.stdout.splitlines()[-1])
    assert {name: bytes.fromhex(content) for name, content in final.items()} == expected
    reached = {name for _, names, _ in steps for name in names}
    assert {"save_documents", "save_rows", "write_part", "assemble_shard"} <= reached
    for message, _, visible in steps:
        assert "\n" not in message
        assert "disk is full" in message or "No space left" in message, message
        assert "a.COMPLETED" not in visible and set(visible) <= set(expected)
