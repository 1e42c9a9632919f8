"""Manifests: paths of record files (shards), round trips, and damaged manifests."""

import dataclasses
import hashlib
import json
import os

import pytest
import tensorflow as tf
from refusals import refused

from bert_tf.storage import files, manifest
from bert_tf.storage.manifest import Manifest, Shard

FACTS = {"fingerprint": "f", "flags": {"dupe_factor": 10}, "vocab_size": 30522}


def shard_of(path, content=b"12345", **changes):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    sha256 = hashlib.sha256(content).hexdigest()
    return dataclasses.replace(
        Shard(str(path), len(content), sha256, "train", 3), **changes
    )


def written(tmp_path, *shards, name="a"):
    path = str(tmp_path / f"{name}.manifest.json")
    Manifest(path, shards, FACTS).write()
    return path


def test_globs_leave_out_the_files_next_to_records(tmp_path):
    names = (
        "a.COMPLETED",
        "a.manifest.json",
        "a.stats.json",
        "a.tfrecord",
        "b.tf_record",
    )
    for name in names:
        (tmp_path / name).write_bytes(b"")
    found = manifest.find_records(f"{tmp_path}/*")
    assert found == [f"{tmp_path}/{name}" for name in names[3:]]
    assert manifest.find_records(f"{tmp_path}/a.stats.json") == [
        f"{tmp_path}/a.stats.json"
    ]
    with refused(r"No record file matches .*a\.m\*"):
        manifest.find_records(f"{tmp_path}/a.m*")


def test_the_file_has_the_released_format(tmp_path):
    shard = shard_of(tmp_path / "a.tfrecord")
    content = json.loads(tf.io.gfile.GFile(written(tmp_path, shard)).read())
    assert content == {
        "format": "bert_tf pretraining records",
        "version": 1,
        **FACTS,
        "shards": [
            {"name": "a.tfrecord", "split": "train", "examples": 3, "bytes": 5,
             "sha256": hashlib.sha256(b"12345").hexdigest()},
        ],
    }  # fmt: skip


def test_paths_follow_the_folder_of_the_manifest(tmp_path):
    (tmp_path / "before").mkdir()
    inside = shard_of(tmp_path / "before/a.tfrecord")
    next_to_it = shard_of(tmp_path / "other" / "b.tfrecord")
    path = written(tmp_path / "before", inside, next_to_it)
    names = [
        shard["name"] for shard in json.loads(tf.io.gfile.GFile(path).read())["shards"]
    ]
    assert names == ["a.tfrecord", "../other/b.tfrecord"]
    os.rename(tmp_path / "before", tmp_path / "after")
    read = Manifest.read(str(tmp_path / "after/a.manifest.json"))
    paths = [str(tmp_path / "after/a.tfrecord"), str(tmp_path / "other/b.tfrecord")]
    assert [shard.path for shard in read.shards] == paths


@pytest.mark.parametrize("place", ["", "./", "../{folder}/"])
def test_a_shard_is_found_under_every_form_of_its_path(tmp_path, monkeypatch, place):
    shard = shard_of(tmp_path / "a.tfrecord")
    read = Manifest.read(written(tmp_path, shard))
    monkeypatch.chdir(tmp_path)
    assert read.find_shard(place.format(folder=tmp_path.name) + "a.tfrecord") == shard
    assert Manifest.read("a.manifest.json").find_shard("a.tfrecord") == shard
    assert read.find_shard("b.tfrecord") is None


def test_manifests_on_remote_storage(tmp_path):
    folder = "ram://test_manifest"
    shard = Shard(f"{folder}/a.tfrecord", 2, "", "train", 1)
    tf.io.gfile.makedirs(folder)
    with tf.io.gfile.GFile(shard.path, "wb") as file:
        file.write(b"ab")
    Manifest(f"{folder}/a.manifest.json", (shard,), {}).write()
    (read,) = manifest.manifests_next_to([shard.path])
    assert read.shards == (shard,) and read.find_shard(shard.path) == shard
    assert shard.has_recorded_size() and not shard.has_recorded_checksum()


def test_size_and_checksum_of_a_changed_file_differ(tmp_path):
    shard = shard_of(tmp_path / "a.tfrecord")
    assert files.size_and_sha256(shard.path) == (shard.bytes, shard.sha256)
    assert shard.has_recorded_size() and shard.has_recorded_checksum()
    (tmp_path / "a.tfrecord").write_bytes(b"12346")
    assert shard.has_recorded_size() and not shard.has_recorded_checksum()
    (tmp_path / "a.tfrecord").write_bytes(b"1234")
    assert not shard.has_recorded_size()
    (tmp_path / "a.tfrecord").unlink()
    assert not shard.has_recorded_size()
    with refused(r"a\.tfrecord cannot be read: No such file"):
        shard.has_recorded_checksum()


@pytest.mark.parametrize(
    "content",
    ["", "[1, 2]"],
)  # fmt: skip
def test_a_damaged_manifest_is_refused_or_skipped(tmp_path, content):
    damaged = tmp_path / "b.manifest.json"
    damaged.write_text(content)
    with refused(r"b\.manifest\.json is damaged"):
        Manifest.read(str(damaged))
    good = written(tmp_path, shard_of(tmp_path / "a.tfrecord"))
    with refused(r"b\.manifest\.json is damaged"):
        manifest.manifests_next_to([str(tmp_path / "a.tfrecord")])
    found = manifest.manifests_next_to(
        [str(tmp_path / "a.tfrecord")], skip_damaged=True
    )
    assert [each.path for each in found] == [good]


def test_manifests_in_all_folders_are_found_once(tmp_path, monkeypatch):
    for folder in ("x", "y [z]", "empty"):
        (tmp_path / folder).mkdir()
    names = ["x/a.manifest.json", "x/b.manifest.json", "y [z]/c.manifest.json"]
    for name in names:
        Manifest(str(tmp_path / name), (), FACTS).write()
    paths = [str(tmp_path / name) for name in ("x/1", "y [z]/2", "x/3", "empty/4")]
    found = [each.path for each in manifest.manifests_next_to(paths)]
    assert found == [str(tmp_path / name) for name in names]
    monkeypatch.chdir(tmp_path / "x")
    found = [each.path for each in manifest.manifests_next_to(["1"])]
    assert found == ["a.manifest.json", "b.manifest.json"]
