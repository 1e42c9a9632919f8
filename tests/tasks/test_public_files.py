"""Files in the forms that people publish: one table of format, file, and what reading must give.

A row has a name, the function that reads, the file (a name in `data/public_cases` of
BERT_TF_TEST_DATA, or a pair of file name and content), and either the expected value or the words
of the expected error.
"""

import pytest
from prepared import prepared

from bert_tf.errors import InputError
from bert_tf.tasks.classification.sources.custom import TextColumns, custom_task
from bert_tf.tasks.task import DataLocation


class Refused(tuple):
    """The words of the one line with which a file is refused."""


def refused(*words):
    return Refused(words)


def labels_of(path):
    """Returns the labels of a train file with the columns `text` and `label`, in their order."""
    return prepared(custom_task(TextColumns("text")), DataLocation(train_file=str(path))).labels


# Tables of classification.
TABLES = [
    ("labels that are numbers", labels_of, "number_labels.csv", ("1", "2", "10")),
    ("numbers with a decimal point", labels_of,
     ("train.jsonl", "".join(f'{{"text": "x", "label": {n}.0}}\n' for n in (10, -1, 2))),
     ("-1.0", "2.0", "10.0")),
    ("one label that is no number", labels_of,
     ("train.csv", "text,label\na,10\nb,2\nc,x\n"), ("10", "2", "x")),
    ("a label in two lines", labels_of, ("train.csv", 'text,label\na,x\nb,"y\nz"\n'),
     refused("train.csv, line 3: column 'label' has the label 'y\\nz'", "label_column")),
    ("a label with a tab", labels_of, ("train.csv", "text,label\na,x\ty\n"),
     refused("train.csv, line 2: column 'label' has the label 'x\\ty'")),
]  # fmt: skip

# Choices.
CHOICES = []

# Named entities.
NER = []

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
