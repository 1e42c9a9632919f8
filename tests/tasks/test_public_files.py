"""Files in the forms that people publish: one table of format, file, and what reading must give.

A row has a name, the function that reads, the file (a name in `data/public_cases` of
BERT_TF_TEST_DATA, or a pair of file name and content), and either the expected value or the words
of the expected error.
"""

import pytest

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
