"""inspect_records.py reports damaged, empty and changed files.

It reads all readable records.
"""

import gzip
import itertools

import pytest
import tensorflow as tf
from refusals import refused
from tiny_corpus import corpus, make, text_of, write_records

from bert_tf.record_jobs import inspection

# These bytes are neither a valid protobuf nor valid UTF-8.
GARBAGE = b"\xff\x13garbage"


@pytest.fixture
def good(tmp_path, vocab_file):
    """Returns the serialized records of a file without damage."""
    text = text_of(corpus(40))
    _, (path,) = make(tmp_path, vocab_file, text, "good/a.tfrecord", dupe_factor=3)
    return [each.numpy() for each in tf.data.TFRecordDataset(path)]


def without(record, name):
    example = tf.train.Example.FromString(record)
    del example.features.feature[name]
    return example.SerializeToString()


def examples(lines):
    (line,) = (line for line in lines if line.startswith("  examples"))
    return int(line.split()[-1].replace(",", ""))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda record: GARBAGE, "contains a record that is not a tf.train.Example"),
        (lambda record: without(record, "segment_ids"), "has no feature segment_ids"),
    ],
)
def test_a_file_of_other_records_is_refused(tmp_path, inspect, good, damage, words):
    with refused(f"/b {words}"):
        inspect(write_records(tmp_path / "b", map(damage, good)))
    late = [*good[:7], damage(good[7]), *good[8:]]
    with refused(rf"/c, from 0 to {len(good) - 1}, has other features"):
        inspect(write_records(tmp_path / "c", late))


def test_a_file_with_other_lengths_is_refused(tmp_path, vocab_file, inspect, good):
    text = text_of(corpus(40))
    _, (other,) = make(tmp_path, vocab_file, text, "b/a.tfrecord", max_seq_length=64)
    with refused(f"{other} has input_ids of length 64, but length 128"):
        inspect(write_records(tmp_path / "a", good), other)


def starts(raw):
    """Returns each record's offset.

    A record is: length (8 bytes), CRC (4 bytes), data, CRC (4).
    """
    offsets = [0]
    while offsets[-1] < len(raw):
        length = int.from_bytes(raw[offsets[-1] : offsets[-1] + 8], "little")
        offsets.append(offsets[-1] + 16 + length)
    return offsets


@pytest.mark.parametrize("number", [0, 11])
@pytest.mark.parametrize("kind", ["cut", "bit in the record", "bit in its length"])
def test_the_damaged_record_is_reported_and_the_records_before_it_are_read(
    tmp_path, monkeypatch, inspect, good, kind, number
):
    monkeypatch.setattr(inspection, "_BATCH", 4)
    write_records(tmp_path / "a", good)
    raw = bytearray((tmp_path / "a").read_bytes())
    start = starts(raw)[number]
    if kind == "cut":
        del raw[start + 20 :]
    else:
        raw[start + (40 if kind == "bit in the record" else 1)] ^= 1
    (tmp_path / "a").write_bytes(raw)
    other = write_records(tmp_path / "b", good[13:20])
    passed, lines, (broken,) = inspect(tmp_path / "a", other)
    assert not passed
    assert "cannot be read from this record on" in broken
    assert broken.endswith(f", 1 found: {tmp_path}/a record {number}")
    assert "[[" not in broken and "{{" not in broken and "Op:" not in broken
    assert examples(lines) == number + 7


def test_a_truncated_gzip_file_is_read_up_to_its_end(tmp_path, inspect, good):
    write_records(tmp_path / "plain", good[:10])
    packed = gzip.compress((tmp_path / "plain").read_bytes())
    other = write_records(tmp_path / "next", good[10:17])
    for length in (len(packed) // 3, len(packed) // 2, len(packed) - 20):
        (tmp_path / "cut").write_bytes(packed[:length])
        passed, lines, (broken,) = inspect(tmp_path / "cut", other)
        assert not passed
        place = f"{tmp_path}/cut record {examples(lines) - 7}"
        assert broken.endswith(f", 1 found: {place}")


def test_empty_shards_are_reported_but_are_not_a_fault(tmp_path, inspect, good):
    full = write_records(tmp_path / "full", good)
    empty = write_records(tmp_path / "empty", [])
    passed, lines, _ = inspect(empty, full)
    assert passed
    assert f"{empty} holds no record" in lines


def test_input_without_valid_records_is_refused(tmp_path, inspect):
    with refused(r"No record of .* can be read: the files hold no record"):
        inspect(write_records(tmp_path / "empty", []))
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with refused("dangling cannot be read: No such file or directory"):
        inspect(tmp_path / "dang*")


def test_a_shard_that_differs_from_its_manifest_is_reported(
    tmp_path, vocab_file, inspect
):
    make(tmp_path, vocab_file, text_of(corpus(40)), dupe_factor=3, num_output_shards=3)
    paths = sorted((tmp_path / "out").glob("*.tfrecord"))
    (tmp_path / "out/another.manifest.json").write_text("[1, 2]")
    assert inspect(*paths)[0]
    # Write the same valid records in another order.
    found = [each.numpy() for each in tf.data.TFRecordDataset(str(paths[1]))]
    write_records(paths[1], [found[1], found[0], *found[2:]])
    passed, _, (broken,) = inspect(*paths)
    assert not passed
    assert "SHA-256" in broken and broken.endswith(f", 1 found: {paths[1]}")


def test_documents_of_one_sentence_are_as_expected(tmp_path, vocab_file, inspect):
    """As in google-research/bert, B is always random for documents of one sentence."""
    documents = [[sentence] for sentence in itertools.chain(*corpus(40))]
    assert len(documents) > 300
    make(tmp_path, vocab_file, text_of(documents), dupe_factor=3)
    passed, lines, _ = inspect(tmp_path / "out/data.tfrecord")
    (line,) = (line for line in lines if "random next sentences:" in line)
    assert passed, lines
    assert "sentences: 100.00%;" in line
    assert "more where chunks are single sentences" in line
