"""Files in the forms that people publish: one table of format, file, and what reading must give.

A row has a name, the function that reads, the file (a name in `data/public_cases` of
BERT_TF_TEST_DATA, or a pair of file name and content), and either the expected value or the words
of the expected error.
"""

import pytest
import squad_data

from bert_tf.errors import InputError


class Refused(tuple):
    """The words of the one line with which a file is refused."""


def refused(*words):
    return Refused(words)


# Tables of classification.
TABLES = []

# Choices.
CHOICES = []

# Named entities.
NER = []


# Questions and answers.
def squad(answers='[{"text": "Ann", "answer_start": 0}]', question='"Who?"', **others):
    """Returns a name and the content of a file of SQuAD; all values are JSON."""
    qa = f'{{"id": {others.get("id", 1)}, "question": {question}, "answers": {answers}}}'
    qas, context = others.get("qas", f"[{qa}]"), others.get("context", '"Ann left."')
    paragraph = f'{{"context": {context}, "qas": {qas}}}'
    paragraphs = others.get("paragraphs", f"[{paragraph}]")
    return (
        "squad.json",
        f'{{"data": {others.get("data", f"""[{{"paragraphs": {paragraphs}}}]""")}}}',
    )


def stated(start, text='"Ann"'):
    return f'[{{"text": {text}, "answer_start": {start}}}]'


PLACE = "data[0].paragraphs[0].qas[0]"
SQUAD = [
    ("position as text", squad_data.to_train, "answer_start_text.json",
     [("1", "Who left?", ("Ann",), 0)]),
    ("impossible as text", squad_data.to_train_version_2, "impossible_text.json",
     [("1", ("Ann",), False), ("2", ("Bob",), False)]),
    ("second occurrence", squad_data.to_train, "second_occurrence.json",
     [("1", "白いのは何か。", ("猫",), 10)]),
    ("impossible, another word", squad_data.to_train_version_2,
     squad(qas='[{"id": 1, "question": "Who?", "answers": [], "is_impossible": "yes"}]'),
     refused(PLACE, "is_impossible must be true or false", "'yes'")),
    ("position 0.0", squad_data.to_train, squad(stated("0.0")), [("1", "Who?", ("Ann",), 0)]),
    ("position 0.5", squad_data.to_train, squad(stated("0.5")),
     refused(PLACE + ".answers[0]", "answer_start must be a whole number", "0.5")),
    ("position as a word", squad_data.to_train, squad(stated('"first"')),
     refused(PLACE + ".answers[0]", "answer_start must be a whole number", "'first'")),
    ("position null", squad_data.to_train, squad(stated("null")),
     refused(PLACE + ".answers[0]", "answer_start must be", "None")),
    ("answer as a number", squad_data.to_train,
     squad(stated('"2"', text=1984), context='"(\'1984)"'), [("1", "Who?", ("1984",), 2)]),
    ("answer as a number, to predict", squad_data.to_predict, squad('[{"text": 1984}]'),
     [("1", "Who?", ("1984",))]),
    ("answers as texts", squad_data.to_predict, squad('["Ann"]'),
     refused(PLACE + ".answers[0]", "'text'")),
    ("answer null", squad_data.to_predict, squad('[{"text": null}]'),
     refused(PLACE + ".answers[0]", "text must be a text or a number", "None")),
    ("answers null, to predict", squad_data.to_predict, squad("null"), [("1", "Who?", None)]),
    ("answers null, to train", squad_data.to_train, squad("null"),
     refused(PLACE, "answers must be a list", "None")),
    ("answers in an object", squad_data.to_predict, squad('{"text": ["Ann"]}'),
     refused(PLACE, "answers must be a list")),
    ("question null", squad_data.to_predict, squad(question="null"),
     refused(PLACE, "question must be a text or a number", "None")),
    ("id as a list", squad_data.to_predict, squad(id="[1]"),
     refused(PLACE, "id must be a text or a number", "[1]")),
    ("ids 1 and '1'", squad_data.to_predict,
     squad(qas='[{"id": 1, "question": "a"}, {"id": "1", "question": "b"}]'),
     refused("data[0].paragraphs[0].qas[1]", "the id '1'", "an earlier question")),
    ("data null", squad_data.to_predict, squad(data="null"), refused("squad.json: data must be")),
    ("data with null", squad_data.to_predict, squad(data="[null]"),
     refused("data[0] has no key 'paragraphs'")),
    ("paragraphs null", squad_data.to_predict, squad(paragraphs="null"),
     refused("data[0]: paragraphs must be a list", "None")),
    ("qas null", squad_data.to_predict, squad(qas="null"),
     refused("data[0].paragraphs[0]: qas must be a list", "None")),
    ("context null", squad_data.to_predict, squad(context="null"),
     refused("data[0].paragraphs[0]: context must be a text or a number", "None")),
    ("context not a number", squad_data.to_predict, squad(context="NaN"),
     refused("data[0].paragraphs[0]: context must be a text or a number", "nan")),
]  # fmt: skip

ROWS = [*TABLES, *CHOICES, *NER, *SQUAD]


@pytest.mark.parametrize(
    ("read", "file", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_reading_a_public_form(request, tmp_path, read, file, expected):
    if isinstance(file, str):
        path = request.getfixturevalue("test_data") / "data" / "public_cases" / file
    else:
        path = tmp_path / file[0]
        content = file[1]
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    if not isinstance(expected, Refused):
        assert read(path) == expected
        return

    with pytest.raises(InputError) as error:
        read(path)
    message = str(error.value)
    assert "\n" not in message
    for word in expected:
        assert word in message
