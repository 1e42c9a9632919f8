"""The records of questions, compared with the transcription of the released code."""

import random
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
from json_files import read_json
from reference import squad as oracle
from refusals import refused
from squad_data import (
    CASES,
    Encoded,
    answers_of,
    data_of,
    make_task,
    paragraph_of,
    random_data,
    read,
    released_vocabulary,
    tokenizers,
    write,
)
from tokenizer_pairs import pair

from bert_tf import record_format
from bert_tf.runs import record_files
from bert_tf.tasks import windows as task_windows
from bert_tf.tasks.splits import FileSource, RowCounts, Split
from bert_tf.tasks.squad.squad_encoding import WindowSettings
from bert_tf.tasks.squad.squad_task import check_room
from bert_tf.tokenization import BertTokenizer, load_vocabulary

WITHOUT_PIECES = ["", " \t\n", "\u200b \u0301\n\ufffd"]
# max_seq_length, doc_stride, max_query_length
SIZES = [(32, 8, 8), (24, 1, 5), (16, 40, 12), (7, 2, 3), (12, 5, 0), (384, 128, 64)]


# The fields of the oracle that have other names than the features of records.
FIELDS = {
    "start_positions": "start_position",
    "end_positions": "end_position",
    "unique_ids": "unique_id",
}


def columns_of(encoded):
    """Returns the columns of a task as lists, with the names of the oracle's fields."""
    return {
        FIELDS.get(name, name): values.tolist()
        for name, values in encoded.columns.items()
    }


def expected_columns(found, names):
    """Returns the same columns of the oracle; a prediction has the positions 0."""
    return {
        name: [getattr(window, name) or 0 for window in found.features]
        for name in names
    }


def expected_windows(found):
    """Returns the number of windows of each example of the oracle."""
    counts = Counter(window.example_index for window in found.features)
    return [counts[number] for number in range(len(found.oracle_examples))]


def check_equal(found):
    """Checks all records of a file against those of the oracle."""
    columns = columns_of(found.encoded)
    assert columns == expected_columns(found, columns)
    assert len(columns) == 6
    assert found.encoded.records_per_example.tolist() == expected_windows(found)


def encoded(path, do_lower_case, sizes, training, version_2):
    length, stride, query = sizes
    tokenizer, reference = tokenizers(do_lower_case)
    windows = {"doc_stride": stride, "max_query_length": query}
    task = make_task(tokenizer, windows, {"version_2_with_negative": version_2})
    return Encoded(path, task, reference, length, training)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@CASES
def test_generated_questions(tmp_path, do_lower_case, sizes):
    """For training with both versions, and for prediction."""
    data = random_data(str(sizes), 15, 30, True, WITHOUT_PIECES)
    path = write(tmp_path / "train.json", data)
    found = encoded(path, do_lower_case, sizes, True, True)
    check_equal(found)
    assert np.count_nonzero(found.encoded.columns["start_positions"]) > 5
    assert (
        0
        < np.count_nonzero(found.encoded.columns["is_impossible"])
        < len(found.features)
    )
    assert sizes[0] == 384 or len(found.features) > len(found.examples)
    check_equal(encoded(path, do_lower_case, sizes, False, False))
    path = write(tmp_path / "train.json", random_data(str(sizes), 8, 30))
    check_equal(encoded(path, do_lower_case, sizes, True, False))


@CASES
def test_truncated_questions_are_counted(tmp_path, do_lower_case):
    path = write(tmp_path / "dev.json", random_data(0, 40, 4))
    _, reference = tokenizers(do_lower_case)
    lengths = [
        len(oracle.tokens_of(reference, example.question)) for example in read(path)[0]
    ]
    for query in 0, 3, 6:
        found = encoded(path, do_lower_case, (query + 8, 4, query), False, False)
        expected = sum(length > query for length in lengths)
        assert found.encoded.counts == {"with a truncated question": expected}
        assert 0 < expected < len(lengths)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("version", ["v1.1", "v2.0"])
def test_golden_files(test_data, version, training):
    """Records of bert-tf and the reference equal those that the released program made.

    Its training records are in the order of the file.
    """
    folder = test_data / "golden/google_squad_postprocess"
    if not folder.is_dir():
        pytest.skip("requires golden/google_squad_postprocess in BERT_TF_TEST_DATA")
    flags = read_json(folder / version / "flags.json")
    names = "doc_stride", "max_query_length"
    tokenizer, reference = pair(released_vocabulary(test_data), True)
    task = make_task(
        tokenizer, {name: flags[name] for name in names},
        {"version_2_with_negative": flags["version_2_with_negative"]},
    )  # fmt: skip
    kind = "train_" if training else ""
    path = folder / f"squad_sample_{kind}{version}.json"
    found = Encoded(path, task, reference, flags["max_seq_length"], training)
    check_equal(found)
    kind = "train" if training else "predict"
    with np.load(folder / version / f"features_{kind}.npz") as golden:
        for name, values in golden.items():
            expected = [
                getattr(window, FIELDS.get(name, name)) for window in found.features
            ]
            np.testing.assert_array_equal(expected, values, err_msg=name)
        assert {"unique_ids", "input_ids", "input_mask", "segment_ids"} <= {*golden}
        assert ("start_positions" in golden) == training
    impossible = {window.is_impossible for window in found.features}
    assert impossible == ({False, True} if training and version == "v2.0" else {False})


LITERAL = {
    # context, answer, start: the tokens and the answer of each window of up to four
    # pieces
    "narrowed to a part of a word": (
        "(1895-1943)", "1943", 6,
        [(["(", "1895", "-", "1943"], (7, 7)), (["-", "1943", ")"], (5, 5))],
    ),
    "the first of two equal parts": ("b-b", "b", 0, [(["b", "-", "b"], (4, 4))]),
    "not a part: the whole word": ("abc", "bc", 1, [(["a", "##b", "##c"], (4, 6))]),
    "in no window": (
        "a a b a b a", "a b a b", 2,
        [(["a", "a", "b", "a"], (0, 0)), (["b", "a", "b", "a"], (0, 0))],
    ),
    "equal unknown words": ("zz a zq", "zq", 5, [(["[UNK]", "a", "[UNK]"], (6, 6))]),
    "accents and case": ("x CAFÉS, y", "CAFÉ", 2, [(["x", "cafe", "##s", ","], (5, 5)),
                                                     (["##s", ",", "y"], (0, 0))]),
    "Chinese": ("a猫犬a", "犬", 2, [(["a", "猫", "犬", "a"], (6, 6))]),
    "Hangul": ("한 a", "한", 0, [(["ᄒ", "##ᅡ", "##ᆫ", "a"], (4, 6))]),
    "without pieces": ("\u200b a", "\u200b", 0, [(["a"], (4, 3))]),
    "before the first word": (" a", " a", 0, [(["a"], (4, 4))]),
    "only a blank before the first word": (" a b", " ", 0, [(["a", "b"], (5, 3))]),
}  # fmt: skip


@pytest.mark.parametrize("case", LITERAL)
def test_answers_by_hand(tmp_path, case):
    """The question is "who?".

    A sequence has two tokens of it, and room for four pieces.
    """
    context, answer, start, expected = LITERAL[case]
    data = data_of(
        paragraph_of(context, ("1", "Who?", answers_of(answer, start=start)))
    )
    path = write(tmp_path / "train.json", data)
    found = encoded(path, True, (9, 2, 2), True, False)
    check_equal(found)
    columns, vocabulary = found.encoded.columns, tokenizers(True)[0].vocabulary
    rows = [
        ([vocabulary[each] for each in ids[:end]], tuple(positions))
        for ids, end, positions in zip(
            columns["input_ids"],
            columns["input_mask"].sum(axis=1),
            zip(columns["start_positions"], columns["end_positions"], strict=True),
            strict=True,
        )
    ]
    before = ["[CLS]", "who", "?", "[SEP]"]
    assert rows == [
        ([*before, *pieces, "[SEP]"], positions) for pieces, positions in expected
    ]


# A context, the answer, its stated start, and the first and last piece of the answer.
PLACES = [
    ("猫犬猫犬猫", "猫", 0, (0, 0)),
    ("猫犬猫犬猫", "猫", 2, (2, 2)),
    ("猫犬猫犬猫", "猫", 4, (4, 4)),
    ("猫犬猫犬猫", "猫犬", 2, (2, 3)),
    ("a 猫犬猫", "猫", 4, (3, 3)),  # the second word
    ("b-b", "b", 2, (2, 2)),
    ("猫abc犬abc", "abc", 5, (5, 7)),  # a word of several pieces
    ("CAFÉ猫café", "café", 5, (2, 2)),
    (
        "a\u0301猫a\u0301猫",
        "猫",
        5,
        (3, 3),
    ),  # removed accents count in the stated position
    ("zz猫zz猫", "猫", 5, (3, 3)),  # unknown words
    ("猫犬猫", "猫", 1, (0, 0)),  # between two places, the first one is as near
    ("abc猫", "bc", 1, (0, 3)),  # in no place: the whole word
    ("abc猫bc", "bc", 1, (1, 2)),  # inside a word, and not the equal pieces
    ("CAFÉ猫s猫cafés猫s", "s", 11, (5, 5)),
    ("zzb猫b", "b", 2, (0, 0)),  # inside an unknown word
]


@pytest.mark.parametrize(("context", "answer", "start", "expected"), PLACES)
def test_the_stated_position_decides_between_equal_places(
    tmp_path, context, answer, start, expected
):
    """The released rule takes the first place, which the first row has too."""
    data = data_of(paragraph_of(context, ("1", "", answers_of(answer, start=start))))
    found = encoded(write(tmp_path / "train.json", data), True, (32, 8, 2), True, False)
    columns = found.encoded.columns
    positions = columns["start_positions"][0] - 2, columns["end_positions"][0] - 2
    assert positions == expected, found.features[0].tokens


def test_the_second_of_two_occurrences(test_data):
    path = str(test_data / "data/public_cases/second_occurrence.json")
    found = encoded(path, True, (32, 8, 2), True, False)
    # Each of the ten characters before the answer is a token, or unknown as a word.
    (tokens,) = (window.tokens for window in found.features)
    position = int(found.encoded.columns["start_positions"][0])
    assert tokens[position] == "猫" and tokens[2:position].count("猫") == 1
    assert found.features[0].start_position == 2 + tokens[2:].index("猫") < position


def test_an_answer_that_starts_inside_a_word(test_data):
    path = test_data / "data/vocab/bert-base-multilingual-cased-vocab.txt"
    tokenizer = BertTokenizer(load_vocabulary(str(path)), do_lower_case=False)
    path = test_data / "data/public_cases/answer_inside_piece.json"
    (example,), _ = read(path, True)
    columns = make_task(tokenizer, {}, {}).encode([example], tokenizer, 68).columns
    pieces = [tokenizer.vocabulary[each] for each in columns["input_ids"][0]]
    start, end = columns["start_positions"][0], columns["end_positions"][0]
    assert pieces[start - 1 : end + 1] == ["の", "##ネ", "##コ"]


def grid():
    """Yields many triples: pieces of a context, room in a window, stride."""
    for pieces in (0, 1, 2, 3, 5, 8, 13, 21, 30):
        for room in (1, 2, 3, 5, 8, 12):
            yield from ((pieces, room, stride) for stride in (1, 2, 3, 5, 7, 20))
    rng = random.Random(0)
    for _ in range(20):
        yield rng.randrange(1500), rng.randint(50, 500), rng.randint(20, 200)
    yield 1000, 381, 128


def test_windows_equal_the_released_ones():
    for pieces, room, stride in grid():
        starts, lengths = task_windows.windows(pieces, room, stride)
        expected = oracle.doc_spans(pieces, room, stride)
        found = list(zip(starts.tolist(), lengths.tolist(), strict=True))
        assert found == expected, (pieces, room, stride)


def test_counts_of_windows_equal_the_released_ones():
    for stride in (1, 2, 3, 5, 7, 20, 128):
        pieces, room = (
            each.ravel() for each in np.meshgrid(np.arange(60), np.arange(1, 25))
        )
        found = task_windows.count_windows(pieces, room, stride)
        expected = [
            len(oracle.doc_spans(*each, stride))
            for each in zip(pieces.tolist(), room.tolist(), strict=True)
        ]
        assert found.tolist() == expected


def test_the_context_of_a_piece_equals_the_released_one():
    for sizes in grid():
        starts, lengths = task_windows.windows(*sizes)
        spans = oracle.doc_spans(*sizes)
        best = [
            oracle.max_context_span(spans, position) for position in range(sizes[0])
        ]
        times = np.zeros(sizes[0], int)
        for window, (start, length) in enumerate(spans):
            found = task_windows.has_max_context(starts, lengths, window)
            assert found.tolist() == [
                each == window for each in best[start : start + length]
            ]
            times[start : start + length] += found
        assert times.tolist() == [1] * sizes[0]


@pytest.mark.parametrize(("query", "length"), [(0, 4), (64, 68)])
def test_the_shortest_sequence_has_room_for_one_piece(query, length):
    settings = WindowSettings(1, query)
    check_room(length, settings)
    message = (
        rf"max_seq_length must be greater than max_query_length \+ 3 = {length - 1}, .*"
        rf"Received: {length - 1}\."
    )
    with refused(message):
        check_room(length - 1, settings)


@pytest.mark.parametrize("limit", [0, 7])
def test_training_examples_have_the_released_order(tmp_path, limit):
    data = random_data(0, 60, 10, True)
    path = write(tmp_path / "train.json", data)
    task = make_task(tokenizers(True)[0], {}, {"version_2_with_negative": True})
    in_order = [example.qas_id for example in oracle.read_examples(data, True, True)]
    in_order = in_order[: limit or None]
    counts = RowCounts()
    found = task.read(Split("train", FileSource(path), limit=limit), counts)
    assert [example.id for example in found] == oracle.shuffled_for_training(in_order)
    assert bool(counts) == (not limit)
    every = [question["id"] for question in oracle.questions(data)]
    found = task.read(Split("dev", FileSource(path), limit=limit), RowCounts())
    assert [example.id for example in found] == every[: limit or None]


def test_record_files_equal_the_released_ones(tmp_path, monkeypatch):
    """Several threads encode blocks of seven examples.

    The record numbers are successive.
    """
    monkeypatch.setattr(record_files, "_EXAMPLES_PER_BLOCK", 7)
    # No answer of these questions has several equal places in its words.
    data = random_data(8, 60, 30, True, WITHOUT_PIECES)
    path = write(tmp_path / "train.json", data)
    tokenizer, reference = tokenizers(True)
    windows = {"doc_stride": 8, "max_query_length": 5}
    task = make_task(tokenizer, windows, {"version_2_with_negative": True})
    examples = list(task.read(Split("train", FileSource(path)), RowCounts()))
    written = record_files.write(
        str(tmp_path / "train.tf_record"), examples,
        lambda block: task.encode(block, tokenizer, 24), task.table, {},
    )  # fmt: skip
    shuffled = oracle.shuffled_for_training(oracle.read_examples(data, True, True))
    expected = oracle.features(shuffled, reference, 24, 8, 5, True)
    records = tf.data.TFRecordDataset(written.path).batch(10**6)
    parsed = record_format.parser(record_format.SPAN, {"S": 24})(next(iter(records)))
    assert len(examples) > 60 and len(parsed) == 7
    for name, values in parsed.items():
        field = FIELDS.get(name, name)
        assert values.numpy().tolist() == [
            getattr(window, field) for window in expected
        ], name
    index = written.index
    per_example = Counter(window.example_index for window in expected)
    assert index.records_per_example.tolist() == [
        per_example[n] for n in range(len(examples))
    ]
    assert index.num_tokens.tolist() == [sum(window.input_mask) for window in expected]
