"""Settings of the documentation's web pages.

`make docs` builds the pages in build/docs.
"""

import os
import pathlib
import re

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # autodoc imports TensorFlow

from sphinx.util.inspect import signature, stringify_signature

import bert_tf

FOLDER = pathlib.Path(__file__).parent
FILES_URL = f"https://github.com/bert-tf/bert-tf/blob/v{bert_tf.__version__}/"

project = "bert-tf"
author = "The bert-tf authors"
version = release = bert_tf.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["README.md"]  # _prepare_page adds it to index.md

html_theme = "furo"
html_title = f"bert-tf {release}"
html_copy_source = False
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["pages.css"]

myst_heading_anchors = 3  # for links such as results.md#tokenizer
nb_execution_mode = "off"  # the notebook contains its outputs; a test executes it

smartquotes_action = (
    "D"  # dashes only: quotation marks are part of values such as "bert-tf"
)
toc_object_entries_show_parents = "hide"
default_role = "literal"  # the docstrings mark code with single backticks
autodoc_inherit_docstrings = (
    False  # Keras's docstrings are part of Keras's documentation
)
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
napoleon_custom_sections = [
    "Source",
    ("Attributes", "params_style"),
    ("Call arguments", "params_style"),
]
napoleon_use_rtype = False
# No links lead to the documentation of other packages, to type variables and to
# internal classes.
nitpick_ignore_regex = [
    ("py:.*", r"(collections|contextlib|keras|np|numpy|os|tempfile|tensorflow|tf)\..*"),
    ("py:.*", r"(dict|tuple)\[.*"),
    ("py:.*", r"bert_tf\.training\.trainer\.ObjectiveT"),
    (
        "py:.*",
        r"bert_tf\.(pretrained\.Model|tasks\.classification\..*|.*\.SpecialTokenFinder|"
        r".*\.(HeadChoice|RunResults|SplitEvaluator))",
    ),
]


def setup(app):
    """Connects the functions below to the build."""
    app.connect("source-read", _prepare_page)
    # napoleon has priority 500. _prepare_docstring runs before napoleon.
    app.connect("autodoc-process-docstring", _prepare_docstring, priority=400)
    app.connect("autodoc-process-signature", _find_signature)
    app.connect("missing-reference", _resolve_name)


def _prepare_page(app, name, source):
    """Adds README.md to the index, and makes links out of docs/ absolute."""
    if name == "index":
        source[0] = (FOLDER / "README.md").read_text("utf-8") + source[0]
        app.env.note_dependency(str(FOLDER / "README.md"))
    source[0] = source[0].replace("](../", f"]({FILES_URL}")


def _prepare_docstring(app, what, name, value, options, lines):
    """Translates what Sphinx does not understand, and links public names.

    Docstrings hold what reStructuredText and napoleon do not understand.
    """
    text = "\n".join(_mark_items(lines)).replace("\\", r"\\")
    if (
        what == "module"
    ):  # the name is its title; its indented text is a list of files in columns
        text = f".. rubric:: {name}\n\n" + re.sub(r"\n\n(?= {4})", "\n\n::\n\n", text)
    if "::\n" not in text:  # the examples consist of code
        code = r"\1.. rubric:: Example\n\1.. code-block:: python\n"
        text = re.sub(r"^( *)Examples?:$", code, text, flags=re.M)
    text = re.sub(r"^Source: ", "Source:\n    ", text, flags=re.M)
    lines[:] = re.sub(r"(?<![`:\w])`([A-Z]\w+)`(?![`\w])", _link, text).split("\n")


def _mark_items(lines):
    """Yields a docstring's lines, with items such as `name: meaning` marked as a list.

    Items are lines of this form outside of sections, and the lines after `Dict with`
    and `One of`.
    """
    indent, margin, previous = None, "", ""
    for line in lines:
        own = len(line) - len(line.lstrip())
        starts = re.fullmatch(r"[a-z]\w*: .+", line) or re.search(
            r"(Dict with|One of)$", previous
        )
        if indent is None and starts:
            indent, margin = (
                own,
                " " * (own - 4 if previous.strip() == "Dict with" else own),
            )
            yield ""
        if indent is not None and (own < indent or not line.strip()):
            indent = None
            yield ""
        if indent is None:
            yield line
        else:
            yield margin + ("* " if own == indent else "  ") + line.strip()
        previous = line


def _link(match):
    name = match[1]
    return f":py:obj:`~bert_tf.{name}`" if name in bert_tf.__all__ else match[0]


def _find_signature(app, what, name, value, _, found, returns):
    """Returns the signature of the constructor where `__new__` of Keras hides it."""
    if what != "class" or found != "(*args, **kwargs)":
        return None
    constructor = signature(value.__init__, bound_method=True)
    options = {"show_return_annotation": False, "unqualified_typehints": True}
    return stringify_signature(constructor, **options), returns


def _resolve_name(app, env, node, contnode):
    """Resolves a name of bert_tf that is documented under another module's name."""
    if node.get("refdomain") != "py" or not node["reftarget"]:
        return None
    domain, last = env.domains.python_domain, "." + node["reftarget"].split(".")[-1]
    found = [
        name
        for name in domain.objects
        if name.endswith(last) and name.startswith("bert_tf.")
    ]
    if not found:
        return None
    page, name = node["refdoc"], min(found, key=len)
    return domain.resolve_xref(env, page, app.builder, "obj", name, node, contnode)
