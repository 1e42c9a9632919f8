"""Each input format, for vocabulary training and for record creation."""

import bz2
import gzip
import hashlib
import json
import os
import re
import threading

import pyarrow
import pyarrow.parquet
import pytest
import tensorflow as tf
import text_files
import tiny_corpus
from json_files import read_json
from refusals import refused
from run_programs import run_mains
from tiny_corpus import corpus

from bert_tf.corpus import text_blocks, text_formats
from bert_tf.record_creation import segments
from bert_tf.record_creation.records_config import RecordsConfig
from bert_tf.record_jobs import base
from bert_tf.vocabularies import word_counts

ENDINGS = [
    *text_files.TEXT_ENDINGS, *text_files.WIKIEXTRACTOR_ENDINGS,
    *text_files.DOCUMENT_ENDINGS,
]  # fmt: skip
DOCUMENTS = ["wab wac\nwad", "wae", "waf wag\nwah wab\nwac"]
WORDS = {"wab": 2, "wac": 2, "wad": 1, "wae": 1, "waf": 1, "wag": 1, "wah": 1}
# With these settings, even a short text is cut into several segments (groups of whole
# documents).
SMALL_SEGMENTS = {
    "segment_bytes": 3000,
    "pool_bytes": 9000,
    "dupe_factor": 2,
    "max_seq_length": 64,
}


def count(input_file, **source):
    blocks, _ = text_blocks.read_blocks(
        text_blocks.TextSource(str(input_file), **source)
    )
    return word_counts.count_words(blocks, None, True, 1).words


def create(vocab_file, input_file, output, **flags):
    """Returns the bytes of the created records, or None if complete ones existed."""
    config = RecordsConfig(vocab_file, **flags)
    reports = tiny_corpus.create(config, input_file, output)
    return output.read_bytes() if reports else None


def texts(number):
    return ["\n".join(" ".join(s) for s in document) for document in corpus(number)]


def test_every_format_gives_the_same_records(tmp_path, vocab_file):
    documents = texts(20)
    found = {}
    for number, ending in enumerate(ENDINGS):
        path = text_files.write(tmp_path / f"text{ending}", documents)
        found[ending] = create(vocab_file, path, tmp_path / f"out/{number}.tfrecord")
    folder = text_files.write_tfds(tmp_path, documents)
    flags = {"tfds_name": "tiny", "tfds_data_dir": folder, "segment_bytes": 4 << 20}
    found["tfds"] = create(vocab_file, "", tmp_path / "out/tfds.tfrecord", **flags)
    assert len(set(found.values())) == 1 and found[".txt"]


@pytest.mark.parametrize("ending", [".txt.gz", ".parquet", "wiki_00"])
def test_unpacked_input_is_cut_into_segments_and_removed(tmp_path, vocab_file, ending):
    documents = texts(60)
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    plain.mkdir(), packed.mkdir()
    for start in (0, 30):
        part = documents[start : start + 30]
        text_files.write(packed / f"{start}{ending}", part)
        if ending == ".txt.gz":
            text_files.write(plain / f"{start}.txt", part)
        else:
            lines = [json.dumps({"text": text}, ensure_ascii=False) for text in part]
            (plain / f"{start}.jsonl").write_text(
                "".join(line + "\n" for line in lines)
            )
    flags = {**SMALL_SEGMENTS, "break_documents_at_files": True}
    expected = create(
        vocab_file, plain / "*", tmp_path / "expected/a.tfrecord", **flags
    )
    assert (
        create(vocab_file, packed / "*", tmp_path / "out/a.tfrecord", **flags)
        == expected
    )
    assert not list((tmp_path / "out").glob(".*"))
    manifest = read_json(tmp_path / "out/a.manifest.json")
    hashes = [
        hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(packed.iterdir())
    ]
    assert [each["sha256"] for each in manifest["inputs"]] == hashes
    assert (
        create(vocab_file, packed / "*", tmp_path / "out/a.tfrecord", **flags) is None
    )


def test_a_resumed_run_does_not_unpack_again(tmp_path, vocab_file, monkeypatch):
    path = text_files.write(tmp_path / "text.jsonl.gz", texts(60))
    arguments = vocab_file, path, tmp_path / "out/a.tfrecord"
    expected = create(
        vocab_file, path, tmp_path / "expected/a.tfrecord", **SMALL_SEGMENTS
    )

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(segments, "cut", interrupt)
        with pytest.raises(KeyboardInterrupt):
            create(*arguments, **SMALL_SEGMENTS)
    assert list(tmp_path.glob("out/.a.work/*/unpacked-000000"))
    monkeypatch.setattr(base, "unpack", interrupt)
    assert create(*arguments, **SMALL_SEGMENTS) == expected


def test_beam_reads_packed_input(tmp_path, vocab_file):
    pytest.importorskip("apache_beam", reason="needs the [beam] extra")
    from bert_tf.record_jobs import beam

    documents, packed = texts(60), tmp_path / "packed"
    packed.mkdir()
    text_files.write(packed / "text.parquet", documents[:30])
    text_files.write(packed / "wiki_00.bz2", documents[30:])
    source = f"{packed}/*"
    local = tmp_path / "local/a.tfrecord"
    expected = create(vocab_file, source, local, **SMALL_SEGMENTS)
    output = tmp_path / "beam/a.tfrecord"
    config = RecordsConfig(vocab_file, **SMALL_SEGMENTS)
    base.create_records(beam.BeamRunner(""), config, source, [str(output)])
    assert output.read_bytes() == expected
    assert not list(output.parent.glob(".*"))


def test_formats_may_be_mixed(tmp_path, vocab_file):
    documents = texts(20)
    for number, ending in enumerate([".txt", ".jsonl", ".txt.gz", ".parquet"]):
        text_files.write(
            tmp_path / f"{number}{ending}", documents[5 * number : 5 * number + 5]
        )
    assert count(f"{tmp_path}/[0-3].*") == count(
        text_files.write(tmp_path / "all", documents)
    )
    mixed = create(vocab_file, f"{tmp_path}/[0-3].*", tmp_path / "out/mixed.tfrecord")
    assert mixed == create(vocab_file, tmp_path / "all", tmp_path / "out/all.tfrecord")
    # A file with the same bytes but another format counts as another input.
    same = [{"path": "a", "bytes": 9, "format": each} for each in ("jsonl", "text")]
    config = RecordsConfig(vocab_file)
    assert config.fingerprint("", same[:1]) != config.fingerprint("", same[1:])
    manifest = read_json(tmp_path / "out/mixed.manifest.json")
    found = [each["format"] for each in manifest["inputs"]]
    assert found == ["text", "jsonl", "text", "parquet"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.txt", "text"), ("a", "text"), ("a.gz", "text"), ("a.md.gz", "text"),
        ("a.jsonl", "jsonl"), ("a.jsonl.gz", "jsonl"), ("a.jsonl.bz2", "jsonl"),
        ("gs://b/c.parquet", "parquet"),
        ("a.tfrecord", "tfrecord"), ("a.tfrecords.gz", "tfrecord"),
        ("a.tf_record", "tfrecord"),
        ("a.record", "tfrecord"), ("lm1b-train.tfrecord-00000-of-00100", "tfrecord"),
        ("a.tfrecord/b.txt", "text"),
    ],
)  # fmt: skip
def test_the_file_name_decides_the_format(name, expected):
    assert text_formats.format_of(name) == expected
    assert text_formats.format_of(name, "jsonl") == "jsonl"


def test_input_format_overrides_the_file_name(tmp_path, vocab_file):
    text_files.write(tmp_path / "a.jsonl", texts(20))
    expected = create(vocab_file, tmp_path / "a.jsonl", tmp_path / "out/a.tfrecord")
    words = count(tmp_path / "a.jsonl")
    (tmp_path / "a.jsonl").rename(tmp_path / "a.data")
    flags = {"input_format": "jsonl"}
    as_text = count(tmp_path / "a.data", input_format="text")
    assert count(tmp_path / "a.data", **flags) == words != as_text
    output = tmp_path / "out/a.tfrecord"
    assert create(vocab_file, tmp_path / "a.data", output, **flags) is None, "complete"
    assert create(vocab_file, tmp_path / "a.data", tmp_path / "b", **flags) == expected


# The lines of blocks of WikiExtractor, and the documents, or the words of the error.
HEAD = '<doc id="7" url="?curid=7" title="{}">'
BLOCKS = [
    ([HEAD.format("A & B"), "A &amp; B", "", "a", "", "b &lt;i&gt;.", "</doc>"],
     ["a\nb <i>."]),
    ([HEAD.format("A &amp; B"), "A & B", "a.", "</doc>", "", HEAD.format("c"), "d",
      "</doc>"],
     ["a.", "d"]),
    ([HEAD.format('"A" by B'), '"A" by B', "a </doc> b.</doc>"], ["a </doc> b."]),
    ([HEAD.format("A")[:-1] + ' language="en" revision="1">', "A", "a", "A", "</doc>"],
     ["a\nA"]),
    ([HEAD.format("A"), "A", "</doc>", HEAD.format("B"), " \u3000", "", "</doc>"], []),
    (["\ufeff" + HEAD.format("A"), "A", "a\r", "</doc>\r"], ["a"]),
    ([HEAD.format("A"), "A", "a", HEAD.format("B"), "b", "</doc>"],
     "The block that starts in line 1 of PATH has no </doc>."),
    ([HEAD.format("A"), "a", "</doc>", HEAD.format("B"), "b"],
     "The block that starts in line 4 of PATH has no </doc>."),
    ([HEAD.format("A"), "a", "</doc>", "b", HEAD.format("B"), "</doc>"],
     "Line 4 of PATH is outside of the blocks"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "expected"), BLOCKS)
def test_blocks_of_wikiextractor(tmp_path, monkeypatch, lines, expected):
    monkeypatch.setattr(text_formats, "CHUNK_BYTES", 16)
    path = tmp_path / "wiki_00"
    path.write_text("\n".join(lines) + "\n", newline="")
    documents = text_formats.read_documents(str(path), "wikiextractor", "text")
    if isinstance(expected, list):
        assert [each.decode() for each in documents] == expected
        return
    with refused(re.escape(expected.replace("PATH", str(path)))):
        list(documents)


def test_the_programs_read_the_output_of_wikiextractor(tmp_path, test_data, vocab_file):
    """The public case, plain and packed, without a flag for its format."""
    source = test_data / "data/public_cases/wikiextractor.txt"
    (tmp_path / "wiki_00.bz2").write_bytes(bz2.compress(source.read_bytes()))
    train = f"--input_file={source} --vocab_size=120 --output_file={tmp_path}/v.txt"
    records = (
        f"--input_file={tmp_path}/wiki_0* --vocab_file={vocab_file} --split_sentences"
    )
    records += f" --num_workers=1 --output_file={tmp_path}/a.tfrecord"
    trained, created = run_mains(
        [
            ("bert_tf.data_prep.train_vocabulary", train.split()),
            ("bert_tf.data_prep.create_pretraining_data", records.split()),
        ]
    )
    for result, path in ((trained, source), (created, tmp_path / "wiki_00.bz2")):
        line = (
            f"1 of 1 input files, such as {path}, begin with <doc id= and are read as"
        )
        assert (
            result.code == 0 and f"{line} --input_format=wikiextractor." in result.err
        ), result
    assert "The text has 2 documents and 3 sentences." in trained.out
    assert "2 documents, 3 sentences" in created.out
    # The start of a pipe is not examined before it is read.
    with refused(r"<doc id=\. Give input_format=wikiextractor"):
        next(text_formats.read_text(str(source), "auto"))


# Text, and words of the hint about it, or "".
SUBTITLES = (
    "1\n00:00:01,000 --> 00:00:04,000\nHello there.\n\n"
    "2\n00:00:05,000 --> 00:00:06,000\nYes.\n\n"
)
WRAPPED = (
    "It was a bright cold day in the north, and all the clocks of\r\n"
    "the town were silent. The old man looked out of the window,\r\n"
    "as he had done on each morning of that winter, and said that\r\n"
    "he would go to the river before noon, because the boat which\r\n"
    "he had built in the summer lay there.\r\n\r\n"
)
HINTS = [
    (
        SUBTITLES,
        "hint: 4 of the first 6 lines of PATH have no letter or have a time code.",
    ),
    (SUBTITLES.encode("utf-8-sig").decode() * 3, "12 of the first 18 lines"),
    ("[00:12.00] la\n[00:15.30] la\n" * 4, "hint: 8 of the first 8 lines"),
    (WRAPPED, "hint: 4 of the first 5 lines of PATH end inside of a sentence"),
    (WRAPPED, "Join the lines of each paragraph"),
    (WRAPPED.replace("\r\n", " ") * 9, ""),
    ("".join(f"{line} .\n" for line in WRAPPED.split("\r\n") if line), ""),
    ("1\n2\n", ""),
    ("这里的夏天很热。\n" * 9, ""),
]


@pytest.mark.parametrize(("text", "words"), HINTS)
def test_text_that_is_not_prose_gets_a_hint(tmp_path, capsys, text, words):
    for name, content in (("a.txt", text), ("b.jsonl", json.dumps({"text": text}))):
        (tmp_path / name).write_text(content, newline="")
        text_formats.input_files(str(tmp_path / name), "auto", "text")
        err = capsys.readouterr().err
        assert words.replace("PATH", str(tmp_path / name)) in err if words else not err


@pytest.mark.parametrize("name", ["books.txt", "wikitext2_heldout.txt"])
def test_real_prose_gets_no_hint(test_data, capsys, name):
    text_formats.input_files(str(test_data / "data/corpora" / name), "auto", "text")
    assert not capsys.readouterr().err


def test_a_place_that_is_not_utf8_is_named(tmp_path, vocab_file):
    text_files.write(tmp_path / "a.tfrecord", [b"wab", b"wa\xff"])
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"wab\nwa\xff"))
    for name, place in (("a.tfrecord", "record"), ("a.txt.gz", "line")):
        # Vocabulary training ignores bytes that are not valid UTF-8.
        assert count(tmp_path / name) == {"wab": 1, "wa": 1}
        with refused(rf"{name} is not UTF-8: byte 0xff in {place} 2"):
            create(vocab_file, tmp_path / name, tmp_path / "out/a.tfrecord")


@pytest.mark.parametrize("ending", [".tfrecord.gz", ".parquet"])
def test_the_text_may_have_another_name(tmp_path, vocab_file, ending):
    path = text_files.write(tmp_path / f"a{ending}", DOCUMENTS, feature="body")
    assert count(path, text_feature="body") == WORDS
    assert create(vocab_file, path, tmp_path / "out/a.tfrecord", text_feature="body")


def test_documents_without_text_are_empty(tmp_path, vocab_file):
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        for values in ([b"wab", b"wac"], [], [b"wad"]):
            features = {"text": {"bytes_list": {"value": values}}} if values else {}
            writer.write(
                tf.train.Example(features={"feature": features}).SerializeToString()
            )
    pyarrow.parquet.write_table(
        pyarrow.table({"text": ["wab\nwac", None, "wad"]}), tmp_path / "a.parquet"
    )
    lines = [
        '{"text": "wab\\nwac"}',
        "",
        '{"text": ""}',
        '{"text": "wad"}',
    ]  # no line feed at the end
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    found = set()
    for name in ("a.tfrecord", "a.parquet", "a.jsonl"):
        assert count(tmp_path / name) == {"wab": 1, "wac": 1, "wad": 1}
        found.add(
            create(vocab_file, tmp_path / name, tmp_path / f"out/{name}.tfrecord")
        )
    assert len(found) == 1


def test_a_document_that_is_too_large_is_named_by_its_source(
    tmp_path, vocab_file, monkeypatch
):
    monkeypatch.setattr(segments, "MAX_DOCUMENT_BYTES", 3000)
    texts = ["\n".join([word] * 100) for word in ("wab", "wac")] + [
        "wad\n" * 3000,
        "wae",
    ]
    for ending, place in ((".txt.gz", "line 203 of"), (".parquet", "^Row 3 of"),
                          (".tfrecord", "^Record 3 of"),
                          (".jsonl.gz", "^Line 3 of")):  # fmt: skip
        path = text_files.write(tmp_path / f"text{ending}", texts)
        with refused(rf"{place} \S*/text{ending}.* larger than"):
            create(vocab_file, path, tmp_path / "out/a.tfrecord", segment_bytes=1000)


def test_a_json_line_that_does_not_fit_into_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text_formats.files, "MAX_LINE_BYTES", 1 << 20)
    (tmp_path / "a.jsonl").write_text('{"text": "' + "wab " * (1 << 20))
    with refused(r"a.jsonl has a line of more than 1 MiB. Split it"):
        count(tmp_path / "a.jsonl")


def test_paths_of_other_file_systems(tmp_path):
    for ending in (".txt.gz", ".jsonl", ".tfrecord", ".parquet"):
        path = text_files.write(tmp_path / f"text{ending}", DOCUMENTS)
        tf.io.gfile.copy(path, f"ram://formats/text{ending}", overwrite=True)
        assert count(f"ram://formats/text{ending}") == WORDS


def test_pipes_are_for_vocabulary_training_only(tmp_path, vocab_file):
    os.mkfifo(tmp_path / "pipe")
    for name in ("-", f"{tmp_path}/pipe"):
        with refused(rf"input_file {name} is a pipe.*Write it to a file"):
            create(vocab_file, name, tmp_path / "out/a.tfrecord")
    content = b"wab wac\n" * 100_000
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[content])
    writer.start()
    assert count(tmp_path / "pipe") == {"wab": 100_000, "wac": 100_000}
    writer.join()


def test_vocabulary_from_standard_input(tmp_path):
    text = tmp_path / "text.txt"
    text.write_bytes(b"wab wac\nwad\n" * 50)
    commands = [
        ("bert_tf.data_prep.train_vocabulary",
         [f"--input_file={name}", f"--output_file={tmp_path}/{output}",
          "--vocab_size=120"])
        for name, output in (("-", "a.txt"), (text, "b.txt"))
    ]  # fmt: skip
    results = run_mains(commands, stdin=text)
    assert [result.code for result in results] == [0, 0], results
    assert (tmp_path / "a.txt").read_bytes() == (tmp_path / "b.txt").read_bytes()
