"""Word counts: bounded blocks for lines of any length, and text that is not UTF-8."""

import collections
import gzip
import itertools
import threading

import pytest
import run_programs
import text_files
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference import tokenizer as reference

from bert_tf.corpus import text_blocks
from bert_tf.progress import map_in_order
from bert_tf.vocabularies import word_counts

# All examples of a test may share the fixtures, because they only replace attributes of
# modules.
SHARED = HealthCheck.function_scoped_fixture
SMALL = 64  # block size in bytes


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", SMALL)


def count(source, do_lower_case=True, num_workers=2):
    blocks, size = text_blocks.read_blocks(text_blocks.TextSource(source))
    return word_counts.count_words(blocks, size, do_lower_case, num_workers)


def write(path, content):
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return str(path)


def cut(*chunks):
    return list(text_blocks.cut_into_blocks(chunks, "text.txt"))


TEXT = st.lists(
    st.one_of(
        st.sampled_from(
            ["\n", " ", "\t", "\r\n", "中", "あ", "ΑΣ", "e\u0301", "a" * 70, "中" * 40]
        ),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    ),
    max_size=60,
).map("".join)


@settings(max_examples=200, deadline=None, suppress_health_check=[SHARED])
@given(TEXT, st.integers(1, 200))
def test_blocks_concatenate_to_the_text_and_have_bounded_size(text, chunk_bytes):
    encoded = text.encode()
    chunks = [
        encoded[at : at + chunk_bytes] for at in range(0, len(encoded), chunk_bytes)
    ]
    blocks = cut(*chunks)
    assert b"".join(block.text for block in blocks) == encoded
    at = 0
    for block in blocks:
        assert 0 < len(block.text) < 3 * SMALL
        assert block.line == encoded.count(b"\n", 0, at) + 1
        block.text.decode()  # raises if a block ends inside a character
        at += len(block.text)


@settings(max_examples=200, deadline=None, suppress_health_check=[SHARED])
@given(
    st.lists(
        st.text("aΣσ中あ\u0301.,'\u302e\u1b44é", min_size=1, max_size=12), min_size=1
    )
)
def test_text_with_blanks_is_cut_between_words(words):
    text = " ".join(words)
    parts = [reference.words(block.text.decode(), True) for block in cut(text.encode())]
    assert list(itertools.chain(*parts)) == reference.words(text, True)


@pytest.mark.parametrize("name", ["text.txt", "text.txt.gz"])
def test_a_long_line_is_counted_in_blocks(tmp_path, name):
    words = ["lower", "ΟΔΟΣ", "中文", "É,", "newest"] * 400
    text = " ".join(words)
    path = write(tmp_path / name, text.encode())
    blocks, _ = text_blocks.read_blocks(text_blocks.TextSource(path))
    assert max(len(block.text) for block in blocks) < 3 * SMALL
    assert count(path).words == collections.Counter(reference.words(text, True))


def test_a_long_record_is_counted_in_blocks(tmp_path):
    text = "two lines\nof lower\n\ntext " * 40
    path = text_files.write(tmp_path / "text.tfrecord", [text, "last one"])
    blocks = list(text_blocks.read_blocks(text_blocks.TextSource(path))[0])
    assert max(len(block.text) for block in blocks) < 3 * SMALL and blocks[-1].line <= 2
    expected = collections.Counter([*reference.words(text, True), "last", "one"])
    assert count(path).words == expected


def test_words_of_over_50_characters_are_not_counted(tmp_path):
    path = write(
        tmp_path / "text.txt", b"a " + b"x" * 51 + b" " + b"y" * 50 + b" " + b"z" * 5000
    )
    assert set(count(path).words) <= {"a", "y" * 50} | {"z" * n for n in range(51)}


def test_at_most_two_blocks_per_worker_are_read_ahead():
    """With 8 workers, at most 16 blocks are read ahead."""
    num_read = threading.Semaphore(0)

    def blocks():
        for index in itertools.count():
            num_read.release()
            yield text_blocks.Block(b"a", "text.txt", index)

    counted = map_in_order(word_counts._counter(True), blocks(), 8)
    for index in range(40):
        block, _, _ = next(counted)
        assert block.line == index
    assert num_read._value <= 40 + 2 * 8
    counted.close()


@pytest.mark.parametrize("name", ["text.txt", "text.txt.gz"])
def test_lines_that_are_not_utf8_are_counted_and_the_first_is_named(tmp_path, name):
    bad = b"caf\xe9 " * 30  # one line that extends over several blocks
    lines = [b"good", bad, b"caf\xc3\xa9", b"\xff", b"good", b"\xed\xa0\x80 x", b"\xc3"]
    # A file with more than 1 % of invalid bytes would be refused.
    rest = b"\n" + b"plain\n" * 2000
    path = write(tmp_path / name, b"\n".join(lines * 2) + rest)
    found = count(path, num_workers=5)
    assert found.invalid_lines == 8 and found.first_invalid == f"{path}:2"
    assert found.words == {"good": 4, "caf": 60, "cafe": 2, "x": 2, "plain": 2000}
    assert count(write(tmp_path / f"good-{name}", b"good\n" * 50)).invalid_lines == 0


def test_a_utf8_byte_order_mark_is_ignored(tmp_path):
    assert count(write(tmp_path / "text.txt", "\ufeffplain".encode())).words == {
        "plain": 1
    }


def test_program_reports_invalid_lines(tmp_path):
    path = write(tmp_path / "text.txt", b"plain caf\xe9\nlow lower\n" * 20)
    flags = [
        f"--output_file={tmp_path}/vocab.txt",
        "--vocab_size=60",
        "--num_unused_tokens=0",
    ]
    (trained,) = run_programs.run_main(
        "bert_tf.data_prep.train_vocabulary", [f"--input_file={path}", *flags]
    )
    assert trained.code == 0, trained.err
    assert f"20 lines are not UTF-8, the first is {path}:1." in trained.err
