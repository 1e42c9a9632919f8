"""Reading input for record creation: its segments, its sentences, and refused input.

A segment is a group of whole documents that one task processes.
"""

import random
import sys

import numpy as np
import pytest
import text_files
from refusals import refused
from tiny_corpus import create, make

from bert_tf.corpus import text_formats
from bert_tf.corpus.sources import seekable_files
from bert_tf.record_creation import segments
from bert_tf.record_creation.records_config import RecordsConfig


def cut(config, paths):
    found = {
        str(path): text_formats.format_of(str(path), config.input_format)
        for path in paths
    }
    return segments.cut(
        config.with_format_of(found.values()), seekable_files(found, "nowhere")
    )


def sentences_of(tmp_path, contents, segment_bytes=4 << 20, **flags):
    """Returns the (document number, sentence) pairs of all segments."""
    paths = []
    for number, content in enumerate(contents):
        paths.append(tmp_path / f"{number}.txt")
        paths[-1].write_bytes(content.encode())
    config = RecordsConfig("", segment_bytes=segment_bytes, **flags)
    found = []
    for number, segment in enumerate(cut(config, paths)):
        for texts, numbers in segments.read_sentences(
            config.with_format_of(["text"]), segment
        ):
            found += [
                ((number, int(d)), text) for d, text in zip(numbers, texts, strict=True)
            ]
    order = {
        key: index for index, key in enumerate(dict.fromkeys(key for key, _ in found))
    }
    return [(order[key], text) for key, text in found]


def test_a_document_continues_in_the_next_file_as_released(tmp_path):
    contents = ["a\nb", "c\n\nd\n", "\ne\n"]
    continued = [(0, "a"), (0, "b"), (0, "c"), (1, "d"), (2, "e")]
    assert sentences_of(tmp_path, contents) == continued
    apart = sentences_of(tmp_path, contents, break_documents_at_files=True)
    assert apart == [(0, "a"), (0, "b"), (1, "c"), (2, "d"), (3, "e")]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("segment_bytes", [1, 100])
def test_cutting_into_segments_does_not_change_documents(
    tmp_path, monkeypatch, segment_bytes, line_end
):
    monkeypatch.setattr(text_formats, "CHUNK_BYTES", 5)
    rng = random.Random(segment_bytes)
    contents = []
    for _ in range(4):
        lines = [
            rng.choice(["", " ", "\u3000", "x y", "äöü " * 9, "\t"]) for _ in range(60)
        ]
        contents.append(line_end.join(lines))
    uncut = sentences_of(tmp_path, contents)
    # A line that contains only white space ends a document.
    expected, number, new_document = [], -1, True
    for line in (
        line for content in contents for line in content.removesuffix("\n").split("\n")
    ):
        if not line.strip():
            new_document = True
            continue
        number += new_document
        new_document = False
        expected.append((number, line.strip()))
    assert uncut == expected
    assert sentences_of(tmp_path, contents, segment_bytes) == uncut


def test_a_document_over_the_size_limit_is_named(tmp_path, vocab_file, monkeypatch):
    monkeypatch.setattr(segments, "MAX_DOCUMENT_BYTES", 3000)
    flags = {"segment_bytes": 1000, "max_seq_length": 32, "dupe_factor": 1}
    line, before = "wab wac wad\n", "wae\n\n" * 100
    fits = before + line * (2900 // len(line)) + "\n" + line * 9
    assert make(tmp_path, vocab_file, fits, "fits.tfrecord", **flags)[0]["train"][
        "examples"
    ]
    above = before + line * (4100 // len(line)) + "\n" + line * 9
    with refused(r"starts in line 201 of .*/corpus.txt is larger"):
        make(tmp_path, vocab_file, above, **flags)
    with refused(r"blank lines .* missing"):
        make(tmp_path, vocab_file, line * 500, **flags)
    # As in google-research/bert, a file without a blank line at its end continues in
    # the next file.
    for number in range(20):
        (tmp_path / f"part{number}").write_text(line * 50)
    config = RecordsConfig(vocab_file, **flags)
    output = [str(tmp_path / "files.tfrecord")]
    with refused(r"line 1 of .*/part0 .*break_documents_at_files"):
        create(config, tmp_path / "part*", *output)
    config = RecordsConfig(vocab_file, break_documents_at_files=True, **flags)
    assert create(config, tmp_path / "part*", *output)


def test_a_blank_line_at_the_start_of_a_file_ends_a_document(tmp_path):
    contents = ["a\n", "\nb\n", " \nc\nd\n", "\r\ne\n"]
    assert sentences_of(tmp_path, contents, segment_bytes=1) == [
        (0, "a"), (1, "b"), (2, "c"), (2, "d"), (3, "e"),
    ]  # fmt: skip
    paths = [str(tmp_path / f"{number}.txt") for number in range(4)]
    assert len(cut(RecordsConfig("", segment_bytes=1), paths)) == 4


def test_tensorflow_datasets_are_cut_into_segments_and_read(tmp_path, vocab_file):
    folder = text_files.write_tfds(tmp_path, ["wab wac\nwad", "wae waf", "wag\n\nwah"])
    config = RecordsConfig(
        vocab_file, input_format="tfds", tfds_name="tiny:train", tfds_data_dir=folder,
        segment_bytes=25,
    )  # fmt: skip
    pieces = segments.cut(config, [])
    assert len(pieces) > 1
    found = [
        block
        for segment in pieces
        for block in segments.read_sentences(config, segment)
    ]
    assert [text for texts, _ in found for text in texts] == [
        "wab wac",
        "wad",
        "wae waf",
        "wag",
        "wah",
    ]
    output = str(tmp_path / "tfds.tfrecord")
    assert create(config, "", output)["train"]["examples"] > 0


def test_white_space_of_several_bytes_ends_sentences_as_a_space_does(test_data):
    """After a sentence, the sentence breaker would cut inside of such a character."""
    path = test_data / "data/public_cases/no_break_space.txt"
    public = path.read_text("utf-8").split("\n")
    for space in map(chr, range(sys.maxunicode + 1)):
        if not space.isspace() or space < "\x80":
            continue
        paragraphs = [line.replace("\u00a0", space) for line in public if line]
        paragraphs += [
            f"{space}A.{space}{space}B c!{space}",
            f"C?{space}(D{space}c…{space}E",
        ]
        found, numbers = segments.split_sentences(paragraphs, np.arange(4))
        assert found == [
            "He "
            "left.", "She came.", "Ann slept.", "Bob ate.", "A.", "B c!", "C?", "(D c…",
            "E",
        ]  # fmt: skip
        assert numbers.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 3]


def test_split_sentences_splits_paragraphs(tmp_path):
    text = "One is here. Two is there!\n\nDoes three come? Yes.\n"
    found = sentences_of(tmp_path, [text], split_sentences=True)
    assert found == [
        (0, "One is here."), (0, "Two is there!"), (1, "Does three come?"), (1, "Yes."),
    ]  # fmt: skip
