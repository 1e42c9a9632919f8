"""inspect_records.py on files that are damaged, empty or changed: named, and the rest is read."""

import gzip
import itertools

import pytest
import tensorflow as tf
from tiny_corpus import corpus, make, text_of, vocabulary_file

from bert_tf.errors import InputError
from data_prep.pretraining_data.settings import RecordsConfig
from data_prep.runners import inspecting, records

# Its protobuf is none, and so are its bytes as text.
GARBAGE = b"\xff\x13garbage"


@pytest.fixture
def vocab_file(tmp_path):
    return vocabulary_file(tmp_path)


@pytest.fixture
def good(tmp_path, vocab_file):
    """Records of one output."""
    _, (path,) = make(tmp_path, vocab_file, text_of(corpus(40)), "good/a.tfrecord", dupe_factor=3)
    return [each.numpy() for each in tf.data.TFRecordDataset(path)]


@pytest.fixture
def audit(vocab_file, capsys):
    def run(*paths, **flags):
        capsys.readouterr()
        names = ",".join(map(str, paths))
        sound = inspecting.inspect(RecordsConfig(vocab_file, **flags), names, 0)
        lines = capsys.readouterr().out.splitlines()
        return sound, lines, [line for line in lines if "BROKEN" in line]

    return run


def write(path, examples, compression=""):
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for each in examples:
            writer.write(each)
    return path


def without(record, name):
    example = tf.train.Example.FromString(record)
    del example.features.feature[name]
    return example.SerializeToString()


def examples(lines):
    (line,) = (line for line in lines if line.startswith("  examples"))
    return int(line.split()[-1].replace(",", ""))


@pytest.mark.parametrize("place", [0, 7])
@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        (lambda record: GARBAGE, records.NO_EXAMPLE),
        (lambda record: without(record, "segment_ids"), records.OTHER_FEATURES),
        (lambda record: without(record, "input_mask"), records.OTHER_FEATURES),
        (lambda record: b"", records.OTHER_FEATURES),
    ],
)
def test_a_record_that_is_none_is_named_wherever_it_stands(
    tmp_path, audit, good, place, damage, rule
):
    changed = [*good[:place], damage(good[place]), *good[place + 1 :]]
    sound, lines, broken = audit(write(tmp_path / "b", changed))
    assert not sound
    assert broken == [f"  BROKEN: {rule}, in 1 record: {tmp_path}/b record {place}"]
    assert examples(lines) == len(good) - 1


def test_a_file_of_other_lengths_does_not_end_the_audit(tmp_path, vocab_file, audit, good):
    text = text_of(corpus(40))
    _, (other,) = make(tmp_path, vocab_file, text, "other/a.tfrecord", max_seq_length=64)
    count = sum(1 for _ in tf.data.TFRecordDataset(other))
    first, last = write(tmp_path / "a", good[:50]), write(tmp_path / "z", good[50:])
    sound, lines, (broken,) = audit(first, other, last)
    assert not sound
    assert f"{records.OTHER_FEATURES}, in {count:,} records: {other} record 0, " in broken
    assert examples(lines) == len(good)


def starts(raw):
    """Where the records of a file start: 8 bytes of length, 4 of CRC, the bytes, 4 of CRC."""
    places = [0]
    while places[-1] < len(raw):
        length = int.from_bytes(raw[places[-1] : places[-1] + 8], "little")
        places.append(places[-1] + 16 + length)
    return places


@pytest.mark.parametrize("batch", [4, 4096])
@pytest.mark.parametrize("number", [0, 1, 11, 12])
@pytest.mark.parametrize("kind", ["cut", "bit in the record", "bit in its length"])
def test_damage_is_named_by_record_and_the_rest_is_read(
    tmp_path, monkeypatch, audit, good, kind, number, batch
):
    monkeypatch.setattr(records, "_BATCH", batch)
    raw = bytearray(write(tmp_path / "a", good).read_bytes())
    start = starts(raw)[number]
    if kind == "cut":
        del raw[start + 20 :]
    else:
        raw[start + (40 if kind == "bit in the record" else 1)] ^= 1
    (tmp_path / "a").write_bytes(raw)
    sound, lines, (broken,) = audit(tmp_path / "a", write(tmp_path / "b", good[13:20]))
    assert not sound
    assert "cannot be read from there on" in broken
    assert broken.endswith(f"in 1 record: {tmp_path}/a record {number}")
    assert "[[" not in broken and "{{" not in broken and "Op:" not in broken
    assert examples(lines) == number + 7


def test_gzip_that_is_cut_is_read_to_the_cut(tmp_path, audit, good):
    """Anywhere: between two records too, in the checksum at the end, and behind two bytes."""
    packed = gzip.compress(write(tmp_path / "whole", good[:10]).read_bytes())
    other = write(tmp_path / "next", good[10:17])
    for place in [2, 12, *range(20, len(packed), 61), len(packed) - 8, len(packed) - 1]:
        (tmp_path / "cut").write_bytes(packed[:place])
        sound, lines, (broken,) = audit(tmp_path / "cut", other)
        assert not sound
        assert broken.endswith(f"in 1 record: {tmp_path}/cut record {examples(lines) - 7}")
    assert examples(lines) == 17, "all records are there, the end of the checksum is not"
    (tmp_path / "cut").write_bytes(packed[:-8] + bytes(8))
    assert "data check" in audit(tmp_path / "cut", other)[2][0]


def test_empty_shards_are_said_and_are_no_fault(tmp_path, vocab_file, audit, good):
    full = write(tmp_path / "full", good)
    empty = write(tmp_path / "empty", [])
    sound, lines, _ = audit(empty, full)
    assert sound
    assert f"{empty} holds no record" in lines
    _, _ = make(tmp_path, vocab_file, "wab\nwac\n\nwad\nwae\n", dupe_factor=1, num_output_shards=9)
    paths = sorted((tmp_path / "out").glob("*.tfrecord"))
    none = [path for path in paths if not path.stat().st_size]
    assert none
    _, lines, broken = audit(*paths)
    assert not broken
    assert [f"{path} holds no record" in lines for path in none] == [True] * len(none)


def test_nothing_to_read_is_refused(tmp_path, audit):
    for content, words in (([], "there is none"), ([GARBAGE], "garbage record 0")):
        with pytest.raises(InputError, match=f"No record of .* can be read: .*{words}"):
            audit(write(tmp_path / "garbage", content))
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="dangling cannot be read: No such file or directory"):
        audit(tmp_path / "dang*")


@pytest.mark.parametrize("compression", ["", "gzip"])
def test_a_shard_that_is_not_what_its_manifest_lists_is_named(
    tmp_path, vocab_file, audit, compression
):
    make(
        tmp_path, vocab_file, text_of(corpus(40)), dupe_factor=3, num_output_shards=3,
        compression=compression,
    )  # fmt: skip
    paths = sorted((tmp_path / "out").glob("*.tfrecord"))
    (tmp_path / "out/another.manifest.json").write_text("[1, 2]")
    assert audit(*paths)[0]
    # As many bytes, sound records, but in another order.
    kind = compression.upper()
    found = [each.numpy() for each in tf.data.TFRecordDataset(str(paths[1]), kind)]
    write(paths[1], [found[1], found[0], *found[2:]], kind)
    sound, _, (broken,) = audit(*paths)
    assert not sound
    assert "SHA-256" in broken and broken.endswith(f"in 1 file: {paths[1]}")


def test_documents_of_one_sentence_are_as_expected(tmp_path, vocab_file, audit):
    """A chunk of one sentence gets a random next one: as released, so all of these do."""
    documents = [[sentence] for sentence in itertools.chain(*corpus(40))]
    assert len(documents) > 300
    make(tmp_path, vocab_file, text_of(documents), dupe_factor=3)
    sound, lines, _ = audit(tmp_path / "out/data.tfrecord")
    (line,) = (line for line in lines if "next sentences:" in line)
    assert sound, lines
    assert "100.00% random" in line and "each document should be one" in line


def test_causal_records_are_expected_to_hold_no_prediction(tmp_path, vocab_file, audit):
    make(tmp_path, vocab_file, text_of(corpus(20)), dupe_factor=1, objective="causal")
    _, lines, _ = audit(tmp_path / "out/data.tfrecord", objective="causal")
    (line,) = (line for line in lines if "predictions for each length" in line)
    assert "expected: none" in line and "0.15" not in line
