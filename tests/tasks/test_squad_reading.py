"""Reading files of SQuAD, compared with the transcription of the released code.

And bad files.
"""

import gzip
import itertools
import json
from collections import Counter

import pytest
import reading
from reference import squad as oracle
from refusals import refused
from squad_data import (
    VERSIONS,
    answers_of,
    data_of,
    paragraph_of,
    random_data,
    read,
    write,
)

from bert_tf.tasks.squad import squad_examples

CONTEXTS = [
    "",
    " \t\r\n\u202f",
    "one",
    " leading",
    "two  blanks\ttab\nline\r\nend ",
    "narrow\u202fspace, no-break\xa0space, thin\u2009space, line\u2028separator",
    "control\x1fcharacter zero\u200bwidth \ufeffmark",
    "中文 字",
]


def expected_examples(data, training, version_2):
    """Returns the fields of the examples that the released code reads."""
    found = oracle.read_examples(data, training, version_2)
    return [
        (
            e.qas_id,
            e.question_text,
            e.doc_tokens,
            e.start_position,
            e.end_position,
            e.is_impossible,
        )
        for e in found
    ]


def fields(example):
    """Returns the same fields of an example of the package."""
    positions = example.answer_words or (
        (-1, -1) if example.is_impossible else (None, None)
    )
    return (
        example.id,
        example.question,
        list(example.words),
        *positions,
        example.is_impossible,
    )


def check_read(folder, data, training=False, version_2=False):
    """Checks the examples of a file; returns them, and the counts."""
    path = write(folder / "train.json", data)
    found, counts = read(path, training, version_2)
    expected = expected_examples(data, training, version_2)
    assert [fields(example) for example in found] == expected
    return found, counts


def about(context, *texts, start=0):
    """Returns the contents of a file with one question, "who"."""
    return data_of(paragraph_of(context, ("1", "who", answers_of(*texts, start=start))))


@pytest.mark.parametrize("context", CONTEXTS)
def test_words_of_a_context(tmp_path, context):
    data = data_of(paragraph_of(context, ("1", " who\u202f is ", answers_of("x"))))
    found, counts = check_read(tmp_path, data)
    assert found[0].question == " who\u202f is " and not counts


@VERSIONS
@pytest.mark.parametrize("training", [False, True])
def test_generated_files(tmp_path, training, version_2):
    data = random_data(0, 150, version_2=version_2)
    found, counts = check_read(tmp_path, data, training, version_2)
    skipped = len(oracle.questions(data)) - len(found)
    assert counts == ({squad_examples.SKIPPED: skipped} if training else {})
    assert (skipped > 0) == training
    assert any(example.is_impossible for example in found) == (training and version_2)


def test_each_position_of_a_short_answer(tmp_path):
    """All spans of a context with blanks at both ends, also those of blanks only."""
    context = " a  b\u202fa\xa0b\n"
    spans = [
        (i, j) for i in range(len(context)) for j in range(i + 1, len(context) + 1)
    ]
    questions = [
        (f"{i}-{j}", "who", answers_of(context[i:j].replace("\u202f", " "), start=i))
        for i, j in spans
    ]
    data = data_of(paragraph_of(context, *questions))
    found, counts = check_read(tmp_path, data, True)
    assert len(found) + counts[squad_examples.SKIPPED] == len(spans)


@pytest.mark.parametrize(
    ("context", "text", "start", "expected"),
    [
        ("a bc d", "bc", 2, (1, 1)),
        ("a bc d", "c d", 3, (1, 2)),
        ("a bc d", "bc", 1, (0, 1)),  # starts one character early
        # Starts one character late: the words still contain it.
        ("a bc d e", "bc", 3, (1, 1)),
        ("a bc d e", "bc", 4, (1, 2)),
        ("a bc d e", "bc", 5, None),
        # Other white space, and the end one character late.
        ("a bc d", "a  bc", 0, (0, 1)),
        # The released program splits the answer at U+00A0, and not the context.
        ("a b\xa0c", "b\xa0c", 2, (1, 1)),
        ("a b\xa0c", "b c", 2, (1, 1)),
        (" a", " a", 0, (-1, 0)),
        (" a b", " a", 0, None),
        (" a b", " ", 0, (-1, -1)),
    ],
)  # fmt: skip
def test_words_of_an_answer(tmp_path, context, text, start, expected):
    found, counts = check_read(tmp_path, about(context, text, start=start), True)
    assert [example.answer_words for example in found] == (
        [expected] if expected else []
    )
    assert counts[squad_examples.SKIPPED] == (expected is None)


@pytest.mark.parametrize(
    ("context", "text", "start"),
    [
        ("abc", "c", 3),
        ("abc", "bc", 2),
        ("abc", "a", 10**30),
        ("abc", "bc", -1),
        ("abc", "", 0),
        ("", "a", 0),
        (" \n", " ", 0),
    ],
)
def test_impossible_positions_are_skipped(tmp_path, context, text, start):
    """The released code fails on most of them, or uses another part of the context."""
    path = write(tmp_path / "train.json", about(context, text, start=start))
    found, counts = read(path, True)
    assert not found
    assert counts == {squad_examples.SKIPPED: 1}


def test_impossible_questions_for_training(tmp_path):
    """The answers of an impossible question do not matter."""
    data = data_of(
        paragraph_of(
            "a b",
            ("none", "who", [], True),
            ("three", "who", answers_of("b", "c", "d", start=99), True),
            ("one", "who", answers_of("b", start=2), False),
        )
    )
    found, counts = check_read(tmp_path, data, True, True)
    assert [example.is_impossible for example in found] == [True, True, False]
    assert [example.answer_words for example in found] == [None, None, (1, 1)]
    assert not counts


def test_answers_for_evaluation(tmp_path):
    """All answers are kept.

    No answer means an unlabelled question, unless it is impossible.
    """
    data = data_of(
        paragraph_of(
            "a b",
            ("several", "who", answers_of("b", "", "b", start=99), False),
            ("impossible", "who", [], True),
            ("test set", "who", []),
        )
    )
    del data["data"][0]["paragraphs"][0]["qas"][2]["answers"]
    path = write(tmp_path / "dev.json", data)
    found, _ = read(path, False, True)
    assert [example.answers for example in found] == [("b", "", "b"), (), None]
    assert not any(example.is_impossible or example.answer_words for example in found)
    found, _ = read(path, False, False)
    assert [example.answers for example in found] == [("b", "", "b"), None, None]


def test_examples_are_read_as_a_stream(tmp_path):
    """An error in a question appears after the examples before it."""
    data = data_of(paragraph_of("a", ("1", "who", answers_of("a")), ("2", "who", [])))
    path = write(tmp_path / "train.json", data)
    examples = squad_examples.read_examples(path, True, False, Counter())
    assert next(examples).id == "1"
    with refused("'2'"):
        next(examples)


def changed(change):
    """Returns the contents of a good file after a change."""
    other, question = (
        {
            "id": name,
            "question": "who",
            "answers": answers_of("a"),
            "is_impossible": False,
        }
        for name in ("2", "1")
    )
    paragraph = {"context": "a b", "qas": [other, question]}
    data = {
        "data": [
            {"paragraphs": []},
            {"paragraphs": [{"context": "", "qas": []}, paragraph]},
        ]
    }
    change(data, paragraph, question)
    return json.dumps(data).encode()


QUESTION = "train.json: data[1].paragraphs[1].qas[1]"
# For each file, its contents and the expected message for training with SQuAD 1.1.
BAD = [
    (b'{"data": [\n{,', ("train.json is not JSON: ", "line 2")),
    (b"", ("train.json is not JSON",)),
    (b'{"data":\n"\xff"}', ("train.json is not UTF-8: byte 0xff in line 2",)),
    (changed(lambda d, p, q: d.pop("data")), ("train.json has no key 'data'",)),
    (changed(lambda d, p, q: q.pop("answers")), (f"{QUESTION} has no key 'answers'",)),
    (
        changed(lambda d, p, q: q["answers"][0].pop("answer_start")),
        (f"{QUESTION}.answers[0] has no key 'answer_start'",),
    ),
    (
        changed(lambda d, p, q: q.update(id="2")),
        (f"{QUESTION} has the id '2', which an earlier question has too",),
    ),
    (
        changed(lambda d, p, q: q["answers"].append(q["answers"][0])),
        (f"{QUESTION}: question '1' has 2 answers", "exactly one. Give a train file"),
    ),
    (
        changed(lambda d, p, q: q.update(answers=[], is_impossible=True)),
        (f"{QUESTION}: question '1' has 0 answers", "version_2_with_negative=True"),
    ),
]


@pytest.mark.parametrize(("content", "words"), BAD)
def test_bad_files(tmp_path, content, words):
    path = reading.write(tmp_path / "train.json", content)
    reading.check(lambda path: read(path, True), path, reading.refused(*words))


def test_a_question_without_is_impossible_has_an_answer(tmp_path):
    path = tmp_path / "train.json"
    path.write_bytes(changed(lambda d, p, q: q.pop("is_impossible")))
    for training, version_2 in itertools.product([False, True], repeat=2):
        found, _ = read(str(path), training, version_2)
        assert [each.answers for each in found] == [("a",), ("a",)]
        assert not any(each.is_impossible for each in found)


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        *itertools.product([True], [True, "True", "true", 1, "1"]),
        *itertools.product([False], [False, "False", "false", 0, "0", None]),
    ],
)
def test_forms_of_is_impossible(tmp_path, value, expected):
    path = tmp_path / "train.json"
    path.write_bytes(changed(lambda d, p, q: q.update(is_impossible=value)))
    found, _ = read(str(path), True, True)
    assert [each.is_impossible for each in found] == [False, expected]
    # Without answers, only a question that is not impossible is unlabelled.
    path.write_bytes(
        changed(lambda d, p, q: q.update(is_impossible=value, answers=None))
    )
    found, _ = read(str(path), False, True)
    assert found[1].answers == (() if expected else None)


def test_a_compressed_file(tmp_path):
    data = random_data(0, 20)
    expected = read(write(tmp_path / "train.json", data), True)
    path = tmp_path / "train.json.gz"
    path.write_bytes(gzip.compress(json.dumps(data).encode()))
    assert read(str(path), True) == expected
    path.write_bytes(b"no gzip")
    with refused(r"train\.json\.gz cannot be read as gzip"):
        read(str(path), True)
