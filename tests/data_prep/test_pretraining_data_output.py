"""The output files of record creation: names, manifest, bytes, files already there."""

import collections
import hashlib
import os

import numpy as np
import tensorflow as tf
from json_files import read_json
from refusals import refused
from tiny_corpus import VOCABULARY, WORDS, corpus, create, make, parsed, text_of

from bert_tf.record_creation.records_config import RecordsConfig
from bert_tf.record_jobs import records_job


def test_the_manifest_lists_the_shards_with_sizes_and_checksums(tmp_path, vocab_file):
    text, flags = text_of(corpus(60)), {"num_output_shards": 3, "eval_fraction": 0.3}
    reports, _ = make(tmp_path, vocab_file, text, **flags)
    folder = tmp_path / "out"
    names = [f"data-0000{number}-of-00003.tfrecord" for number in range(3)]
    names += ["data.COMPLETED", "data.eval-00000-of-00001.tfrecord"]
    names += ["data.manifest.json", "data.stats.json"]
    assert sorted(os.listdir(folder)) == names
    manifest = read_json(folder / "data.manifest.json")
    assert read_json(folder / "data.stats.json") == reports
    totals = collections.Counter()
    for shard in manifest["shards"]:
        content = (folder / shard["name"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == shard["sha256"]
        assert len(content) == shard["bytes"]
        count = sum(1 for _ in tf.data.TFRecordDataset(str(folder / shard["name"])))
        assert count == shard["examples"]
        totals[shard["split"]] += count
    assert totals == manifest["examples"]
    sizes = [s["examples"] for s in manifest["shards"] if s["split"] == "train"]
    assert max(sizes) - min(sizes) <= 1
    expected = hashlib.sha256("\n".join(VOCABULARY).encode()).hexdigest()
    assert manifest["vocabulary_sha256"] == expected
    settings = {"max_seq_length": 128, "max_predictions_per_seq": 20}
    assert {**settings, "do_lower_case": True}.items() <= manifest.items()
    assert manifest["flags"]["random_seed"] == 12345


def test_the_seed_determines_the_records(tmp_path, vocab_file):
    text, contents = text_of(corpus(30)), []
    for number, seed in enumerate((1, 1, 2)):
        output = f"{number}.tfrecord"
        make(tmp_path, vocab_file, text, output, random_seed=seed)
        contents.append((tmp_path / output).read_bytes())
    assert contents[0] == contents[1] != contents[2]


def test_gzip_files_contain_the_same_records(tmp_path, vocab_file):
    text = text_of(corpus(10))
    _, (plain,) = make(tmp_path, vocab_file, text, "plain.tfrecord")
    _, (small,) = make(tmp_path, vocab_file, text, "small.tfrecord", compression="gzip")
    records, unpacked = (
        list(tf.data.TFRecordDataset(path, kind).as_numpy_iterator())
        for path, kind in ((plain, ""), (small, "GZIP"))
    )
    assert records == unpacked
    assert os.path.getsize(small) < os.path.getsize(plain) / 3


def test_train_and_eval_records_come_from_different_documents(tmp_path, vocab_file):
    documents = [[[WORDS[d]] * 6 for _ in range(9)] for d in range(200)]
    make(tmp_path, vocab_file, text_of(documents), eval_fraction=0.25, dupe_factor=2)
    words = {}
    for split, suffix in (("train", ""), ("eval", ".eval-00000-of-00001")):
        records = parsed([f"{tmp_path}/out/data{suffix}.tfrecord"], 128, 20)
        words[split] = set(records["masked_lm_ids"].ravel()) - {0}
    assert not words["train"] & words["eval"]
    assert 0.15 < len(words["eval"]) / 200 < 0.35
    assert len(words["train"] | words["eval"]) == 200


def test_records_are_shuffled_over_all_shards(tmp_path, vocab_file):
    documents = [[[WORDS[d]] * 6 for _ in range(300)] for d in range(20)]
    make(tmp_path, vocab_file, text_of(documents), num_output_shards=4, dupe_factor=2)
    paths = sorted(str(p) for p in (tmp_path / "out").glob("*.tfrecord"))
    for path in paths:
        first = parsed([path], 128, 20)["masked_lm_ids"][:, 0]
        # If the records of 20 documents are in random order, the probability is 1/20
        # that two adjacent records are from the same document.
        assert np.mean(first[1:] == first[:-1]) < 0.12
        assert len(set(first)) == 20


def test_only_damaged_records_are_created_again(tmp_path, vocab_file):
    text = text_of(corpus(10))
    assert make(tmp_path, vocab_file, text)[0]
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").iterdir()}
    assert make(tmp_path, vocab_file, text)[0] == {}
    assert before == {p: p.stat().st_mtime_ns for p in (tmp_path / "out").iterdir()}
    content = (tmp_path / "out/data.tfrecord").read_bytes()
    (tmp_path / "out/data.tfrecord").write_bytes(content[:-5])
    assert make(tmp_path, vocab_file, text)[0]
    assert (tmp_path / "out/data.tfrecord").read_bytes() == content


def test_overwrite_replaces_all_old_files(tmp_path, vocab_file):
    text = text_of(corpus(10))
    make(tmp_path, vocab_file, text, num_output_shards=3)
    config = RecordsConfig(vocab_file, dupe_factor=2)
    output = str(tmp_path / "out/data.tfrecord")
    source = str(tmp_path / "corpus.txt")
    with refused("dupe_factor=10, not 2"):
        create(config, source, output)
    (tmp_path / "one.txt").write_text("wab\n")
    with refused("created with another input"):
        make(tmp_path, vocab_file, "wab wac\n\nwad wae\n", num_output_shards=3)
    (tmp_path / "corpus.txt").write_text(text)
    with refused("one document"):
        create(config, tmp_path / "one.txt", output, overwrite=True)
    # Refused input removes no records.
    assert len(os.listdir(tmp_path / "out")) == 6
    create(config, source, output, overwrite=True)
    names = ["data.COMPLETED", "data.manifest.json", "data.stats.json", "data.tfrecord"]
    assert sorted(os.listdir(tmp_path / "out")) == names


def test_outputs_in_several_folders_are_found_and_replaced(
    tmp_path, vocab_file, monkeypatch
):
    text = text_of(corpus(10))
    monkeypatch.chdir(tmp_path)
    names = "x/a.tfrecord,y/b.tfrecord,z/a.tfrecord"
    assert make(tmp_path, vocab_file, text, names)[0]
    manifest = read_json(tmp_path / "x/a.manifest.json")
    listed = [shard["name"] for shard in manifest["shards"]]
    assert listed == ["a.tfrecord", "../y/b.tfrecord", "../z/a.tfrecord"]
    assert make(tmp_path, vocab_file, text, names)[0] == {}, "complete"
    source = str(tmp_path / "corpus.txt")
    relative = ["x/a.tfrecord", "./y/b.tfrecord", str(tmp_path / "z/a.tfrecord")]
    assert create(RecordsConfig(vocab_file), source, *relative) == {}, "complete"
    # x/b.tfrecord is a file of another program. y/b.tfrecord has the same base name.
    (tmp_path / "x/b.tfrecord").write_bytes(b"other")
    config = RecordsConfig(vocab_file, dupe_factor=2)
    create(config, source, "x/a.tfrecord", overwrite=True)
    assert (tmp_path / "x/b.tfrecord").read_bytes() == b"other"
    assert not os.path.exists("y/b.tfrecord") and not os.path.exists("z/a.tfrecord")
    assert os.path.exists("x/a.tfrecord")


def test_overwrite_keeps_a_listed_file_whose_content_has_changed(tmp_path, vocab_file):
    make(tmp_path, vocab_file, text_of(corpus(10)), num_output_shards=2)
    other = tmp_path / "out/data-00000-of-00002.tfrecord"
    content = b"x" * other.stat().st_size
    other.write_bytes(content)
    output = [str(tmp_path / "out/data.tfrecord")]
    create(RecordsConfig(vocab_file), tmp_path / "corpus.txt", *output, overwrite=True)
    assert other.read_bytes() == content
    assert not (tmp_path / "out/data-00001-of-00002.tfrecord").exists()


def test_outputs_that_differ_only_after_tfrecord_have_separate_files():
    stems = [
        records_job.output_stem(f"out/part.tfrecord-{number}") for number in (0, 1)
    ]
    assert stems == ["out/part-0", "out/part-1"]
    config = RecordsConfig("", num_output_shards=2, eval_fraction=0.3)
    assert records_job.shard_paths(["out/more.tfrecord-7"], config) == {
        "train": [f"out/more-0000{number}-of-00002.tfrecord-7" for number in (0, 1)],
        "eval": ["out/more.eval-00000-of-00001.tfrecord-7"],
    }
