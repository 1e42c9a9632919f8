"""Checks that `cleaning` extracts the expected prose from sample docstrings."""

import ast
import textwrap

import pytest

from bert_tf.sample_data import cleaning, documentation, sentences


def prose(docstring):
    return [
        paragraph.text
        for paragraph in cleaning.extract_prose(textwrap.dedent(docstring))
    ]


def test_numpy_sections():
    paragraphs = cleaning.extract_prose(
        """Return the mean.

        Parameters
        ----------
        a : array_like
            Array of numbers whose
            mean is desired.
        axis, dims : int, optional
            Axis along which to go.

            Negative ones count from the end.
        *args
            Passed on.

        Returns
        -------
        out : ndarray
            The mean of the numbers.

        See Also
        --------
        median : The middle.

        Notes
        -----
        Sums first, then divides.

        >>> mean([1])
        1.0
        """
    )
    assert [each.text for each in paragraphs] == [
        "Return the mean.",
        "a: Array of numbers whose mean is desired.",
        "axis: Axis along which to go.",
        "Negative ones count from the end.",
        "args: Passed on.",
        "The mean of the numbers.",
        "Sums first, then divides.",
    ]
    assert [paragraphs[1].text[a:b] for a, b in paragraphs[1].code] == ["a"]


def test_google_sections():
    paragraphs = cleaning.extract_prose(
        """Adds two numbers.

        For example:

        ```python
        add(1, 2)
        ```

        Args:
          x: The first number, on
            two lines.
          y (int): The second: never zero.

        Returns:
          The sum of both.

        Raises:
          ValueError: If one is missing.
        """
    )
    assert [each.text for each in paragraphs] == [
        "Adds two numbers.",
        "For example:",
        "x: The first number, on two lines.",
        "y: The second: never zero.",
        "The sum of both.",
        "ValueError: If one is missing.",
    ]


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("Does it.\n\nAttributes\n----------\nsize_ : int\n    How many.\n",
         "Does it.|size_: How many."),
        ("Opens it.\n\n:param str path: Where it is.\n:return: The file.\n",
         "Opens it.|path: Where it is.|The file."),
        ("Go.\n\n.. note::\n    Mind the gap.\n\nStay.\n", "Go.|Mind the gap.|Stay."),
        ("Either\n\n- this, which is\n  long\n- or that\n1. or both\n",
         "Either|this, which is long|or that|or both"),
    ],
    ids=["attributes of NumPy", "fields of Sphinx", "admonition", "lists"],
)  # fmt: skip
def test_terms_and_lists_become_paragraphs(docstring, expected):
    assert "|".join(prose(docstring)) == expected


@pytest.mark.parametrize(
    "removed",
    [
        "This happens then::\n\n    x = 1\n    y = 2\n",
        ".. versionadded:: 1.2\n   Something new in this version.\n",
        ".. [1] A. Author, A Book of the Year, 1999.\n",
        "=====  =====\nName   Mean\n=====  =====\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n",
        ">>> run()\nthis is the output of the run\n",
        "$ make all\n",
    ],
)
def test_code_tables_and_directives_are_removed(removed):
    before, after = "This is the text before it.", "This is the text after it."
    paragraphs = prose(f"{before}\n\n{removed}\n{after}\n")
    kept = [
        each
        for each in split_paragraphs(*paragraphs)
        if not each.startswith("This happens")
    ]
    assert kept == [before, after]


@pytest.mark.parametrize(
    ("marked", "plain", "code"),
    [
        ("Use ``a b`` here", "Use a b here", ["a b"]),
        ("Use `x` or :func:`~m.f`.", "Use x or f.", ["x", "f"]),
        ("See :class:`the class <m.C>` now", "See the class now", ["the class"]),
        ("See :ref:`the guide <guide>`.", "See the guide.", []),
        ("See `the page <http://x.org>`_.", "See the page.", []),
        ("See [the `tf.f` page](http://x.org).", "See the tf.f page.", ["tf.f"]),
        ("It is **very** *bold* [1]_.", "It is very bold.", []),
        (":pep:`8` says so", "PEP 8 says so", []),
        ("As shown in [2]_ it is", f"As shown {cleaning.GAP} it is", []),
        ("In @compatibility(numpy) it is", "In it is", []),
        ("Where :math:`x_i` is", f"Where {cleaning.GAP} is", []),
        ("At https://x.org/y now", f"At {cleaning.GAP} now", []),
    ],
)
def test_inline_markup(marked, plain, code):
    text, spans = cleaning.strip_inline_markup(marked)
    assert text == plain
    assert [text[a:b] for a, b in spans] == code


def split_paragraphs(*paragraphs: str):
    docstring = cleaning.Document(
        "python", tuple(cleaning.Text(each, ()) for each in paragraphs)
    )
    return [
        sentence.text
        for sentence in sentences.split_into_sentences([docstring])[0].texts
    ]


def test_sentences_end_at_full_stops_but_not_at_abbreviations_and_numbers():
    assert split_paragraphs(
        "It takes the mean, e.g. of an array, i.e. one number. See tf.nn.relu or Fig. "
        "2 for it. The default of this is 0.5 in Python 3.10. Is it the best? It is "
        "(at least here). Naïve users will not see it."
    ) == [
        "It takes the mean, e.g. of an array, i.e. one number.",
        "See tf.nn.relu or Fig. 2 for it.",
        "The default of this is 0.5 in Python 3.10.",
        "Is it the best?",
        "It is (at least here).",
        "Naïve users will not see it.",
    ]


def test_sentences_that_are_not_prose_are_dropped():
    kept = "This is a whole sentence of the text."
    assert split_paragraphs(
        kept,
        "x = f(y) and so on it goes to z = 3.",
        f"The value {cleaning.GAP} is in the middle of this.",
        "Copyright by the authors of this and that.",
        "too small a start for a sentence.",
        "Tensor of float32.",
        "This one breaks off in the",
        'This has only one " of the quotes in it.',
        "The text is in a <b>bold</b> font here.",
        r"The name of \*args is not changed by it.",
        "The result is here. y = run(x)",
        "This is the call # and this is a comment.",
    ) == [kept]


def test_a_missing_full_stop_is_added():
    assert split_paragraphs("The axis along which it is computed") == [
        "The axis along which it is computed."
    ]


def test_code_positions_are_kept_within_sentences():
    text, code = cleaning.strip_inline_markup(
        "The first is here. Then `axis` is the one to reduce."
    )
    docstring = cleaning.Document("python", (cleaning.Text(text, code),))
    first, second = sentences.split_into_sentences([docstring])[0].texts
    assert (first.code, [second.text[a:b] for a, b in second.code]) == ((), ["axis"])


def test_docstrings_are_found_without_executing_the_file():
    tree = ast.parse(
        textwrap.dedent(
            '''
            """Module."""
            raise SystemExit
            class C:
                """Class."""
                def f(self):
                    """Method."""
                    def inner():
                        """Inner."""
            if C:
                async def g():
                    """Function."""
            add_newdoc("numpy.core", "ndarray", ("T", """Transpose."""))
            '''
        )
    )
    assert list(documentation.find_docstrings(tree)) == [
        "Module.",
        "Class.",
        "Method.",
        "Inner.",
        "Function.",
        "Transpose.",
    ]


def test_files_that_cannot_be_parsed_are_skipped(tmp_path):
    for name, content in (
        ("a", b'print "x" """'),
        ("b", b'"""\xff"""'),
        ("c", b'"""\0"""'),
    ):
        path = tmp_path / f"{name}.py"
        path.write_bytes(content)
        assert (
            documentation.read_source_file(
                documentation.SourceFile("python", str(path), path.name)
            )
            == []
        )
