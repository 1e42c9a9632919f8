"""Files in the forms that people publish: one table of format, file, and what reading must give.

A row has a name, the function that reads, the file (a name in `data/public_cases` of
BERT_TF_TEST_DATA, or a pair of file name and content), and either the expected value or the words
of the expected error.
"""

import collections

import ner_data
import pytest

from bert_tf.errors import InputError
from bert_tf.tasks.ner import conll, json_sentences
from bert_tf.tasks.ner.conll import Columns
from bert_tf.tasks.ner.schemes import find_entities


class Refused(tuple):
    """The words of the one line with which a file is refused."""


def refused(*words):
    return Refused(words)


# Tables of classification.
TABLES = []

# Choices.
CHOICES = []


# Named entities.
def sentences(path, kind="train", **options):
    """Returns the words and the tags of each sentence, in the notation of bert-tf."""
    examples, _ = ner_data.read(ner_data.make_task(**options), path, kind)
    return [(" ".join(each.words), " ".join(each.tags or ())) for each in examples]


def entities(path, columns):
    """Returns the number of entities of each type, what was read, and the warnings."""
    examples, counts = ner_data.read(ner_data.make_task(columns=columns), path, "train")
    types = collections.Counter(e.type for each in examples for e in find_entities(each.tags))
    return dict(types), *counts.notes["read"], len(counts.notes["warnings"])


def words(path):
    return [text for text, _ in sentences(path, "test")]


def predicted(path):
    """Returns the lines of a file whose predictions are its tags."""
    task = ner_data.make_task()
    examples, _ = ner_data.read(task, path, "test")
    render = json_sentences.render if path.suffix == ".json" else conll.render
    return [line for each in examples for line in render(each, list(each.tags))]


SECOND = Columns(1, 2)
KAGGLE = (
    "Sentence #,Word,POS,Tag\nSentence: 1,Ann,NNP,B-per\n,left,VBD,O\n"
    'Sentence: 2,"Rome, Oslo",NNP,B-geo\n'
)
NER = [
    (
        "columns that are not the first and the last",
        lambda path: entities(path, SECOND),
        "index_and_nested.tsv",
        (
            {"PER": 2, "LOC": 1, "ORG": 1},
            "words: column 1 of 4; tags: column 2: LOC 1, ORG 1, PER 2; "
            "scheme iob2: O B-ENTITY I-ENTITY",
            0,
        ),
    ),
    (
        "numbers as words",
        lambda path: entities(path, Columns()),
        "index_and_nested.tsv",
        (
            {"LOC": 1},
            "words: column 0 of 4; tags: column 3: LOC 1; scheme iob2: O B-ENTITY I-ENTITY",
            1,
        ),
    ),
    (
        "the column of nested entities",
        lambda path: entities(path, Columns(0, 2)),
        ("a.conll", "Ann B-PER O\nLee B-PER O\nBob B-PER B-PER\n"),
        (
            {"PER": 1},
            "words: column 0 of 3; tags: column 2: PER 1; scheme iob2: O B-ENTITY I-ENTITY",
            1,
        ),
    ),
    (
        "chunks are no entities",
        lambda path: entities(path, Columns()),
        (
            "eng.train",
            "-DOCSTART- -X- O O\n\nU.N. NNP I-NP I-ORG\nofficial NN I-NP O\n"
            "heads VBZ I-VP O\nfor IN I-PP O\nit PRP I-NP O\n. . O O\n",
        ),
        (
            {"ORG": 1},
            "words: column 0 of 4; tags: column 3: ORG 1; scheme iob1: O B-ENTITY I-ENTITY",
            0,
        ),
    ),
    (
        "comments",
        lambda path: entities(path, SECOND),
        "comments.tsv",
        (
            {"PER": 1, "LOC": 1},
            "words: column 1 of 4; tags: column 2: LOC 1, PER 1; scheme iob2: O B-ENTITY I-ENTITY",
            0,
        ),
    ),
    (
        "comments with an empty column at the end, as in GermEval",
        lambda path: sentences(path, columns=SECOND),
        ("a.tsv", "#\thttp://a.org\t[2010-01-01]\t\n1\t#\tO\tO\n2\tAnn\tB-PER\tO\n"),
        [("# Ann", "O B-PER")],
    ),
    (
        "comments of CoNLL-U, and # as a word",
        sentences,
        ("a.txt", "# text = Ann # left\nAnn B-PER\n# O\n# a comment\nleft O\n"),
        [("Ann # left", "B-PER O O")],
    ),
    (
        "comments in predictions",
        predicted,
        ("a.conll", "# newdoc\n\n# text = a\na\tB-X\n# b c\td\te\nb\tO\n"),
        ["# newdoc", "", "# text = a", "a\tB-X\tB-X", "# b c\td\te", "b\tO\tO"],
    ),
    ("tags like O^S-PER", sentences, "most_sentences_malformed.conll", [("Oslo", "S-LOC")]),
    (
        "BILOU",
        sentences,
        ("a.conll", "a B-PER\nb L-PER\nc U-LOC\nd O\n"),
        [("a b c d", "B-PER E-PER S-LOC O")],
    ),
    (
        "BILOU predictions",
        predicted,
        ("a.conll", "a B-PER\nb L-PER\nc U-LOC\n"),
        ["a B-PER B-PER", "b L-PER L-PER", "c U-LOC U-LOC"],
    ),
    (
        "BMES",
        predicted,
        ("a.bmes", "a B-PER\nb M-PER\nc E-PER\nd S-PER\n"),
        ["a B-PER B-PER", "b M-PER M-PER", "c E-PER E-PER", "d S-PER S-PER"],
    ),
    (
        "tags without types",
        sentences,
        ("a.conll", "a B\nb I\nc O\n"),
        [("a b c", "B-ENTITY I-ENTITY O")],
    ),
    ("predictions without types", predicted, ("a.conll", "a B\nb O\n"), ["a B B", "b O O"]),
    ("lower case", sentences, ("a.conll", "a b-per\nb i-per\nc o\n"), [("a b c", "B-per I-per O")]),
    (
        "lower-case predictions",
        predicted,
        ("a.conll", "a b-per\nc o\n"),
        ["a b-per b-per", "c o o"],
    ),
    (
        "an underscore in tags",
        sentences,
        ("a.conll", "a B_PER\nb I_PER\nc O\n"),
        [("a b c", "B-PER I-PER O")],
    ),
    (
        "underscores in predictions",
        predicted,
        ("a.conll", "a B_WORK_OF\n"),
        ["a B_WORK_OF B_WORK_OF"],
    ),
    (
        "one type with another separator",
        sentences,
        ("a.conll", "a B-PER\nb I-PER\n\nc B_LOC\n"),
        [("a b", "B-PER I-PER"), ("c", "B-LOC")],
    ),
    (
        "tags without prefixes",
        sentences,
        ("a.conll", "a PER\nb PER\nc 0\nd creative-work\n"),
        [("a b c d", "I-PER I-PER O I-creative-work")],
    ),
    (
        "predictions without prefixes",
        predicted,
        ("a.conll", "a PER\nb PER\nc 0\n"),
        ["a PER PER", "b PER PER", "c 0 0"],
    ),
    (
        "no outside tag",
        lambda path: sentences(path, "dev"),
        ("a.conll", "a NNP\nb VBZ\n"),
        refused("line 1", "the tag 'NNP' is malformed"),
    ),
    (
        "indices of tags",
        lambda path: sentences(path, "dev"),
        ("a.conll", "a 1\nb 0\n"),
        refused("line 1", "the tag '1' is malformed"),
    ),
    (
        "a tab at the end of each line",
        predicted,
        ("a.tsv", "a\tB-PER\t\nb\tO\t\n\nc\tO\t\n"),
        ["a\tB-PER\tB-PER", "b\tO\tO", "", "c\tO\tO"],
    ),
    (
        "words with a tab",
        lambda path: sentences(path, "test"),
        ("a.tsv", "a\t\nb\t\n"),
        [("a b", "")],
    ),
    (
        "CSV with a column of sentences",
        sentences,
        ("a.csv", KAGGLE),
        [("Ann left", "B-per O"), ("Rome, Oslo", "B-geo")],
    ),
    (
        "CSV with the number of the sentence in each row",
        sentences,
        ("a.csv", "sentence_id,words,labels\n0,a,O\n0,b,B-X\n1,c,O\n"),
        [("a b", "O B-X"), ("c", "O")],
    ),
    (
        "CSV with empty lines",
        sentences,
        ("a.csv", "word,tag\na,O\nb,B-X\n\nc,O\n,\nd,O\n"),
        [("a b", "O B-X"), ("c", "O"), ("d", "O")],
    ),
    (
        "CSV without a header line",
        sentences,
        ("a.csv", "Ann,B-PER\nleft,O\n"),
        [("Ann left", "B-PER O")],
    ),
    (
        "tabs in a file with the ending .csv",
        sentences,
        ("a.csv", "\nAnn\tB-PER\n,\tO\n\nleft\tO\n"),
        [("Ann ,", "B-PER O"), ("left", "O")],
    ),
    (
        "predictions of CSV",
        predicted,
        ("a.csv", KAGGLE),
        ["Ann\tNNP\tB-per\tB-per", "left\tVBD\tO\tO", "", "Rome, Oslo\tNNP\tB-geo\tB-geo"],
    ),
    (
        "JSON with the ending .json",
        predicted,
        ("a.json", '{"words": ["Ann", "left"], "tags": ["U-PER", "O"]}\n'),
        ['{"words": ["Ann", "left"], "tags": ["U-PER", "O"], "predicted": ["U-PER", "O"]}'],
    ),
    (
        "ner_tags",
        sentences,
        ("a.jsonl", '{"tokens": ["Ann"], "ner_tags": ["B-PER"]}\n'),
        [("Ann", "B-PER")],
    ),
    (
        "names of tags are missing",
        sentences,
        ("a.jsonl", '{"tokens": ["Ann"], "ner_tags": [3]}\n'),
        refused("line 1", "'tags' must be a list of texts. Received: [3]"),
    ),
    (
        "doccano",
        sentences,
        ("a.jsonl", '{"id": 1, "text": "Ann left", "label": [[0, 3, "PER"]]}\n'),
        [("Ann left", "B-PER O")],
    ),
    (
        "doccano with relations",
        sentences,
        (
            "a.jsonl",
            '{"text": "in Oslo", "entities": [{"id": 1, "label": "LOC", "start_offset": 3, '
            '"end_offset": 7}], "relations": []}\n',
        ),
        [("in Oslo", "O B-LOC")],
    ),
    (
        "a label of a text",
        words,
        ("a.jsonl", '{"text": "Ann left", "label": "news"}\n'),
        ["Ann left"],
    ),
    (
        "a column of words that are spaces",
        words,
        ("a.txt", "a\n\u00a0\n\u3000\n\u2028\n\nb\n \n"),
        ["a \u00a0 \u3000 \u2028", "b"],
    ),
    (
        "words that end with U+FEFF",
        words,
        ("a.jsonl", '{"text": "ann\ufeff a\u200bb\u200d, cafe\u0301\u00ad"}\n'),
        ["ann a\u200bb , cafe\u0301"],
    ),
]

# Questions and answers.
SQUAD = []

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
