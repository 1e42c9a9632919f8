"""Docstrings written out here, with the prose that a reader would take from them."""

import ast
import textwrap

import pytest

from data_prep.sample_data import cleaning, documentation, sentences


def prose(docstring: str) -> list[str]:
    return [paragraph.text for paragraph in cleaning.clean(textwrap.dedent(docstring))]


def test_numpy_sections():
    found = cleaning.clean(
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
    assert [(each.argument, each.text) for each in found] == [
        ("", "Return the mean."),
        ("a", "a: Array of numbers whose mean is desired."),
        ("axis", "axis: Axis along which to go."),
        ("", "Negative ones count from the end."),
        ("args", "args: Passed on."),
        ("", "The mean of the numbers."),
        ("", "Sums first, then divides."),
    ]
    assert [found[1].text[a:b] for a, b in found[1].code] == ["a"]


def test_google_sections():
    found = cleaning.clean(
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
    assert [(each.argument, each.text) for each in found] == [
        ("", "Adds two numbers."),
        ("", "For example:"),
        ("x", "x: The first number, on two lines."),
        ("y", "y: The second: never zero."),
        ("", "The sum of both."),
        ("", "ValueError: If one is missing."),
    ]


def test_attributes_are_no_arguments():
    found = cleaning.clean("Does it.\n\nAttributes\n----------\nsize_ : int\n    How many.\n")
    assert [(each.argument, each.text) for each in found] == [
        ("", "Does it."),
        ("", "size_: How many."),
    ]


def test_sphinx_fields():
    found = cleaning.clean("Opens it.\n\n:param str path: Where it is.\n:return: The file.\n")
    assert [(each.argument, each.text) for each in found] == [
        ("", "Opens it."),
        ("path", "path: Where it is."),
        ("", "The file."),
    ]


@pytest.mark.parametrize(
    "lost",
    [
        "Then::\n\n    x = 1\n    y = 2\n",
        ".. versionadded:: 1.2\n   Something new.\n",
        ".. [1] A. Author, A Book, 1999.\n",
        "=====  =====\nName   Mean\n=====  =====\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n",
        ">>> run()\nsome output\n",
        "$ make all\n",
    ],
)
def test_what_is_no_prose_goes(lost):
    found = prose(f"Before it all.\n\n{lost}\nAfter it all.\n")
    assert [each for each in found if not each.startswith("Then")] == [
        "Before it all.",
        "After it all.",
    ]


def test_notes_stay():
    assert prose("Go.\n\n.. note::\n    Mind the gap.\n\nStay.\n") == [
        "Go.",
        "Mind the gap.",
        "Stay.",
    ]


def test_lists_become_paragraphs():
    assert prose("Either\n\n- this, which is\n  long\n- or that\n1. or both\n") == [
        "Either",
        "this, which is long",
        "or that",
        "or both",
    ]


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
        (r"The \*args are &lt;kept&gt;.", "The *args are <kept>.", []),
        (":pep:`8` says so", "PEP 8 says so", []),
        ("As shown in [2]_ it is", f"As shown {cleaning.GAP} it is", []),
        ("In @compatibility(numpy) <b> </b> it is", "In it is", []),
        ("Where :math:`x_i` is", f"Where {cleaning.GAP} is", []),
        ("At https://x.org/y now", f"At {cleaning.GAP} now", []),
    ],
)
def test_inline_markup(marked, plain, code):
    text, spans = cleaning.inline(marked)
    assert text == plain
    assert [text[a:b] for a, b in spans] == code


def split(*paragraphs: str) -> list[str]:
    document = documentation.Document(
        "python", "name", tuple(cleaning.Paragraph(each, ()) for each in paragraphs)
    )
    return [sentence.text for sentence in sentences.split([document])[0].sentences]


def test_sentences_end_where_a_reader_ends_them():
    assert split(
        "It takes the mean, e.g. of an array, i.e. one number. See tf.nn.relu or Fig. 2 for it. "
        "The default of this is 0.5 in Python 3.10. Is it the best? It is (at least here). Naïve "
        "users will not see it."
    ) == [
        "It takes the mean, e.g. of an array, i.e. one number.",
        "See tf.nn.relu or Fig. 2 for it.",
        "The default of this is 0.5 in Python 3.10.",
        "Is it the best?",
        "It is (at least here).",
        "Naïve users will not see it.",
    ]


def test_only_prose_is_kept():
    kept = "This is a whole sentence of the text."
    assert split(
        kept,
        "x = f(y) and so on it goes to z = 3.",
        f"The value {cleaning.GAP} is in the middle of this.",
        "Copyright by the authors of this and that.",
        "too small a start for a sentence.",
        "Tensor of float32.",
        "This one breaks off in the",
        'This has only one " of the quotes in it.',
    ) == [kept]


def test_a_missing_full_stop_is_added():
    assert split("The axis along which it is computed") == ["The axis along which it is computed."]


def test_code_stays_in_place():
    text, code = cleaning.inline("The first is here. Then `axis` is the one to reduce.")
    document = documentation.Document("python", "name", (cleaning.Paragraph(text, code),))
    first, second = sentences.split([document])[0].sentences
    assert (first.code, [second.text[a:b] for a, b in second.code]) == ((), ["axis"])
    assert (first.follows, second.follows) == (False, True)


def test_docstrings_are_found_without_running_the_file():
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
    assert list(documentation.docstrings(tree, "m")) == [
        ("m", "Module."),
        ("m.C", "Class."),
        ("m.C.f", "Method."),
        ("m.C.f.inner", "Inner."),
        ("m.g", "Function."),
        ("numpy.core.ndarray.T", "Transpose."),
    ]


def test_files_that_do_not_parse_are_passed_over(tmp_path):
    for name, content in (("a", b'print "x" """'), ("b", b'"""\xff"""'), ("c", b'"""\0"""')):
        path = tmp_path / f"{name}.py"
        path.write_bytes(content)
        assert documentation.read(documentation.Source("python", str(path), path.name)) == []
