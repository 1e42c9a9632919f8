"""If the disk is full, a run reports one error, leaves no partial file, can resume."""

import errno

import pytest
import tensorflow as tf
from refusals import refused
from tiny_corpus import contents, create

from bert_tf.data_prep.runners import output_checks_and_manifest, stages


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def full_in_tensorflow(*_, **__):
    raise tf.errors.ResourceExhaustedError(None, None, "/x/y; No space left on device")


@pytest.mark.parametrize(
    ("module", "name", "error"),
    [
        (tf.io.TFRecordWriter, "write", full_in_tensorflow),
        (stages, "assemble_shard", full),
        (output_checks_and_manifest.files, "write_json", full),
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
