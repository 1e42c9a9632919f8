"""The data stage refuses wrong files and flags with one line, and changes no file."""

import bz2
import contextlib
import gzip
import json
import os
import shutil
import subprocess
import sys

import pytest
import text_files
from refusals import refused, refused_with
from run_programs import Result, assert_refused
from tiny_bert import SPECIAL
from tiny_corpus import create

from bert_tf.corpus import text_blocks
from bert_tf.record_creation.records_config import RecordsConfig
from bert_tf.sample_data.build import SampleDataConfig, build_sample_data
from bert_tf.tokenization.vocabulary import write_vocabulary

RECORDS = "bert_tf.data_prep.create_pretraining_data"
TEXT = "a b c. a b\nc a b\n\nb b a c\na c\n\n" * 9


def write_files(folder):
    """Writes the wrong files; a name says what is wrong with its file."""
    raw = TEXT.encode()
    contents = {
        "good.txt": raw,
        "empty.txt": b"",
        "one_document.txt": b"a b\nc\n",
        "cr.txt": raw.replace(b"\n", b"\r"),
        "utf16.txt": TEXT.encode("utf-16-le"),
        "chinese.txt": ("汉语是世界上使用人数多的" * 90).encode("utf-16-le"),
        "umlauts.txt": ("der Bär frißt gern süße Äpfel\n" * 9).encode("latin-1"),
        "latin1.txt": b"a\n\n\xe9t\xe9\n",
        "array.json": json.dumps([{"text": "a"}], indent=1).encode(),
        "gzip.txt": gzip.compress(raw),
        "cut.gz": gzip.compress(raw * 99)[:99],
        "packed.txt": bz2.compress(raw),
        "cut.bz2": bz2.compress(raw * 99)[:-9],
        "cut_wiki_00": b'<doc id="1" url="" title="A">\nA\n\na b\n\n</do',
        "no_text.jsonl": b'{"body": "a"}\n',
        "cut.jsonl": b'{"text": "a"}\n{"text": "b',
        "twice.jsonl": b'{"text": "a"}\n{"text": "b", "text": "c"}\n',
        "text.parquet": raw,
        "no_mask.txt": b"[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n",
        "data.stats.json": b"{}",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    vocabulary = [*SPECIAL, "a", "b", "c", "."]
    write_vocabulary(str(folder / "vocab.txt"), vocabulary, True)
    for kind in ("jsonl", "parquet", "tfrecord"):
        path = text_files.write(folder / f"a.{kind}", TEXT.split("\n\n"))
        os.rename(path, folder / f"{kind}.txt")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "link.tfrecord").symlink_to("good.txt")


# Input files of `write_files`, and words of the message of record creation. The third
# item is True if vocabulary training refuses the file too, with the same words.
CONTENTS = [
    ("empty.txt", ["no text in"], False),
    ("one_document.txt", ["one document", "blank lines"], False),
    ("cr.txt", ["cr.txt has the line ends CR", r"tr '\r' '\n'"], True),
    ("chinese.txt", ["is not UTF-8 text", "iconv"], True),
    ("umlauts.txt", ["is not UTF-8 text", "iconv"], True),
    ("utf16.txt", ["UTF-16LE", "iconv -f UTF-16LE"], True),
    ("latin1.txt", ["not UTF-8: byte 0xe9 in line 3"], False),
    ("jsonl.txt", ["contains JSON", "input_format=jsonl"], True),
    ("array.json", ["contains JSON", "jq -c '.[]'"], True),
    ("packed.txt", ["packed (bzip2)", "Unpack it first"], True),
    ("cut.bz2", ["cannot be read as bzip2"], True),
    (
        "cut_wiki_00",
        ["The block that starts in line 1 of cut_wiki_00 has no </doc>"],
        True,
    ),
    ("gzip.txt", ["packed (gzip)"], True),
    ("cut.gz", ["cannot be read as gzip"], True),
    ("parquet.txt", ["parquet file", "input_format=parquet"], True),
    ("tfrecord.txt", ["tfrecord file", "input_format=tfrecord"], True),
    ("text.parquet", ["cannot be read as Parquet"], True),
    ("no_text.jsonl", ["Line 1 of", "text_feature names the key"], True),
    ("twice.jsonl", ["Line 2 of", 'one string under "text"'], True),
    ("cut.jsonl", ["Line 2 of", "not a JSON object"], True),
    ("nothing*.txt", ["No input file matches"], True),
    ("folder", ["folder", "*"], True),
]

# Settings of record creation, and words of the message.
SETTINGS = [
    ({"max_predictions_per_seq": 0}, "max_predictions_per_seq must be from 1"),
    (
        {"max_predictions_per_seq": 21, "max_seq_length": 16},
        "max_seq_length, which is 16",
    ),
    ({"max_ngram_size": 21}, "must not exceed max_predictions_per_seq, which is 20"),
    ({"masked_lm_prob": 0.0}, "masked_lm_prob must be above 0"),
    ({"short_seq_prob": 1.1}, "short_seq_prob must be from 0 to 1"),
    ({"random_token_prob": 0.3}, "must not sum to more than 1"),
    ({"dupe_factor": 0}, "dupe_factor must be from 1"),
    ({"max_seq_length": 4}, "max_seq_length must leave 2 to 16384 tokens"),
    ({"objective": "nsp"}, "objective must be one of"),
    ({"tfds_name": "x", "input_format": "text"}, "tfds_name go together"),
    (
        {"replace_whole_words": True},
        "has no effect without do_whole_word_mask. Leave it out",
    ),
    ({"objective": "mlm", "same_document_label": "next"}, "another objective than mlm"),
    (
        {"objective": "causal", "do_whole_word_mask": True},
        "another objective than causal",
    ),
]

# Outputs, globs of the input, settings, and words of the message; with overwrite=True.
OUTPUTS = [
    ("out/a.tfrecord", "pipe", {}, "input_file pipe is a pipe"),
    ("out/a.tfrecord,./out/a.tfrecord", "good.txt", {}, "names a file twice"),
    (
        "out/a.tfrecord",
        "folder/**/*.txt",
        {},
        "folder/**/*.txt has **. Give a glob for each",
    ),
    (
        "out/a.tfrecord",
        "good.txt,voc*.txt",
        {},
        "vocab_file vocab.txt is in input_file too",
    ),
    ("vocab.txt.json", "good.txt", {}, "vocab.txt.json is an input too"),
    ("link.tfrecord", "good.txt", {}, "good.txt is an input too"),
    (
        "data.tfrecord",
        "data.stats.json,good.txt",
        {},
        "data.stats.json is an input too",
    ),
    (
        "good.tfrecord",
        "good*",
        {"num_output_shards": 3},
        "good-00000-of-00003.tfrecord matches",
    ),
    ("out/a.tfrecord", ",", {}, "No input file was given"),
    ("out/a.tfrecord", "nothing*.txt", {}, "No input file matches"),
    ("out/a.tfrecord", "", {"tfds_name": ":train"}, "tensorflow-datasets cannot load"),
    ("out/a.tfrecord", "good.txt", {"vocab_file": "none.txt"}, "none.txt"),
    ("out/a.tfrecord", "good.txt", {"vocab_file": "no_mask.txt"}, "[MASK]"),
]


def snapshot(folder):
    """Returns the contents of all files, and the names of all folders."""
    return {
        path: path.read_bytes() if path.is_file() else path.is_dir()
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Yields a folder with the files of `write_files`, which no test may change."""
    path = tmp_path_factory.mktemp("files")
    write_files(path)
    before = snapshot(path)
    yield path
    with contextlib.suppress(FileNotFoundError):
        (path / "out").rmdir()  # an empty folder may remain
    assert snapshot(path) == before


@pytest.mark.parametrize(("name", "words", "refused_for_vocabulary"), CONTENTS)
def test_content_that_is_not_text_is_refused(
    folder, monkeypatch, name, words, refused_for_vocabulary
):
    monkeypatch.chdir(folder)
    calls = [lambda: create(RecordsConfig("vocab.txt"), name, "out/a.tfrecord")]
    if refused_for_vocabulary:
        calls.append(
            lambda: list(text_blocks.read_blocks(text_blocks.TextSource(name))[0])
        )
    for call in calls:
        with refused_with(*words):
            call()


def test_flags_are_refused_before_tensorflow_is_imported(folder):
    code = "import sys; sys.modules['tensorflow'] = None; "
    code += f"from {RECORDS} import run; run()"
    flags = [
        "--input_file=good.txt",
        "--output_file=out/a.tfrecord",
        "--vocab_file=vocab.txt",
    ]
    command = [sys.executable, "-c", code, *flags, "--beam_options=--runner=x"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    result = Result(done.returncode, done.stdout, done.stderr)
    assert_refused(result, "--beam_options has no effect without --runner=beam")


@pytest.mark.parametrize(("settings", "words"), SETTINGS)
def test_settings_that_cannot_work_are_refused(settings, words):
    with refused_with(words):
        RecordsConfig("vocab.txt", **settings)


@pytest.mark.parametrize(("output", "patterns", "settings", "words"), OUTPUTS)
def test_an_output_that_would_replace_another_file_is_refused(
    folder, monkeypatch, output, patterns, settings, words
):
    monkeypatch.chdir(folder)
    config = RecordsConfig(**{"vocab_file": "vocab.txt", **settings})
    with refused_with(words):
        create(config, patterns, *output.split(","), overwrite=True)


def test_statistics_of_another_program_are_not_overwritten(folder, monkeypatch):
    monkeypatch.chdir(folder)
    with refused(r"data.stats.json exists .* overwrite=True"):
        create(RecordsConfig("vocab.txt"), "good.txt", "data.tfrecord")


def test_shards_of_the_same_job_with_other_names_are_kept(folder, tmp_path):
    config, source = RecordsConfig(f"{folder}/vocab.txt"), f"{folder}/good.txt"
    create(config, source, f"{tmp_path}/a.tfrecord", f"{tmp_path}/b.tfrecord")
    before = snapshot(tmp_path)
    names = [f"{tmp_path}/a.tfrecord", f"{tmp_path}/c.tfrecord"]
    with refused(r"with other names of its files.*removes .*b\.tfrecord"):
        create(config, source, *names)
    assert snapshot(tmp_path) == before
    assert create(config, source, *names, overwrite=True)
    assert {each.name for each in tmp_path.glob("*.tfrecord")} == {
        "a.tfrecord",
        "c.tfrecord",
    }


def test_a_file_is_read_once(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(folder / "good.txt", "good.txt")
    os.symlink("good.txt", "link.txt")
    config = RecordsConfig(f"{folder}/vocab.txt")
    once = create(config, "good.txt", "a.tfrecord")
    patterns = f"good.txt,./good.txt,link.txt,{tmp_path}/good.txt,g*.txt"
    assert create(config, patterns, "b.tfrecord") == once


def test_unusual_inputs_are_read(folder, tmp_path):
    contents = {
        "zero.txt": b"a\0 b\n\nc \0a\n",
        "crlf.txt": b"a b\r\n\r\nc a\r\n",
        "surrogate.jsonl": b'{"text": "a \\ud800 b"}\n{"text": "c a"}\n',
        "members.gz": gzip.compress(b"a b\n\n") + gzip.compress(b"c a\n"),
    }
    found = set()
    for number, (name, content) in enumerate(contents.items()):
        (tmp_path / name).write_bytes(content)
        output = tmp_path / f"out/{number}.tfrecord"
        create(RecordsConfig(f"{folder}/vocab.txt"), tmp_path / name, output)
        found.add(output.read_bytes())
    assert len(found) == 1


def test_shards_without_examples_are_reported(folder, tmp_path, capfd):
    config = RecordsConfig(f"{folder}/vocab.txt", num_output_shards=60, dupe_factor=1)
    create(config, f"{folder}/good.txt", f"{tmp_path}/a.tfrecord")
    assert "of 60 shards are empty" in capfd.readouterr().err


@pytest.mark.parametrize("name", ["folder", "foreign", "own"])
def test_make_sample_data_keeps_other_files(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    contents = {
        "folder/a.txt": "text",
        "foreign/stats.json": '{"mean": 1}',
        "own/stats.json": '{"files": {"corpus/train.txt": {}}}',
        "own/corpus/train.txt": "text",
        "own/corpus/notes.txt": "text",
    }
    for path, text in contents.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    before = snapshot(tmp_path)
    for overwrite, words in ((False, "already exists"), (True, "is not deleted")):
        with refused(words):
            build_sample_data(
                SampleDataConfig(name, max_documents=1, overwrite=overwrite)
            )
    assert snapshot(tmp_path) == before
