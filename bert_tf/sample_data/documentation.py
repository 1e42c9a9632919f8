"""Reads docstrings of Python and of installed packages from their source files.

Source files are parsed and never imported, so no code of the packages runs and the
docstrings depend only on the files.
"""

import ast
import contextlib
import gc
import importlib.metadata
import pathlib
import platform
import re
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bert_tf.progress import Progress
from bert_tf.record_jobs.local import LocalRunner
from bert_tf.sample_data.cleaning import Document, extract_prose

PYTHON = "python"
# The packages that bert-tf requires, directly or indirectly. The list is fixed so that
# other installed packages (a test runner, for example) do not change the text.
DISTRIBUTIONS = (
    "keras",
    "numpy",
    "scipy",
    "scikit-learn",
    "tensorflow",
    "tensorflow-text",
    "tensorflow-datasets",
    "tensorboard",
    "absl-py",
    "attrs",
    "einops",
    "etils",
    "fsspec",
    "grpcio",
    "h5py",
    "joblib",
    "Markdown",
    "narwhals",
    "optree",
    "packaging",
    "pillow",
    "protobuf",
    "psutil",
    "pyarrow",
    "Pygments",
    "requests",
    "rich",
    "simple-parsing",
    "tqdm",
    "urllib3",
    "Werkzeug",
    "wrapt",
)
# The libraries with the most documentation, and their labels in the classification set.
LABELS = {name: name for name in (PYTHON, "tensorflow", "keras", "numpy", "scipy")}
LABELS["scikit-learn"] = "sklearn"
# Files that are not read: tests, demos, and copies of other libraries. The text of such
# copies would get the wrong label.
_EXCLUDED_FILE = re.compile(
    r"(^|/)(tests?|testing|_?vendor\w*|externals|array_api_\w+|idlelib|lib2to3|turtledemo)/"
    r"|(^|/)(test_[^/]*|conftest[^/]*|[^/]*_test)\.py$"
    r"|^tensorflow/(python/keras|_api)/|^keras/_tf_keras/"
)
# The texts of the help topics of Python.
_TOPICS = "pydoc_data/topics.py"
_MIN_CHARACTERS = 80
_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class SourceFile:
    """A Python source file of a library.

    `library` is the name of a distribution, or "python" for the standard library.
    `name` is the path relative to the folder of the standard library or of the
    installed packages. It is the same on all machines.
    """

    library: str
    path: str
    name: str


def _installed() -> dict[str, importlib.metadata.Distribution]:
    distributions = {}
    for name in DISTRIBUTIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            distributions[name] = importlib.metadata.distribution(name)
    return distributions


def library_versions() -> dict[str, str]:
    """Returns the versions of Python and of the distributions, by name."""
    versions = {PYTHON: platform.python_version()}
    for name, distribution in _installed().items():
        versions[name] = distribution.version
    return versions


def list_source_files() -> list[SourceFile]:
    """Returns the source files of all libraries, library by library, in a fixed order."""
    files = _standard_library()
    for library, distribution in _installed().items():
        names = sorted(
            str(path) for path in distribution.files or () if path.suffix == ".py"
        )
        files += [
            SourceFile(library, str(distribution.locate_file(name)), name)
            for name in names
        ]
    return [file for file in files if not _EXCLUDED_FILE.search(file.name)]


def _standard_library() -> list[SourceFile]:
    root = pathlib.Path(sysconfig.get_path("stdlib"))
    return [
        SourceFile(PYTHON, str(path), path.relative_to(root).as_posix())
        for module in sorted(sys.stdlib_module_names)
        for path in (root / f"{module}.py", *sorted((root / module).rglob("*.py")))
        if path.exists()
    ]


def read_docstrings(
    files: list[SourceFile], limit: int, num_workers: int
) -> list[Document]:
    """Reads files in parallel and returns the prose of their distinct docstrings.

    Returns at most `limit` docstrings, or all if `limit` is 0. The result does not
    depend on `num_workers`.
    """
    # The paragraphs are the key, so only one of several docstrings with equal
    # paragraphs is kept.
    documents: dict[Any, Document] = {}
    # Syntax trees have no reference cycles, so workers do not need the cyclic garbage
    # collector.
    with (
        LocalRunner(num_workers, set_up=gc.disable) as workers,
        Progress(
            "reading source files", None if limit else len(files), "files"
        ) as progress,
    ):
        for wait in [workers.submit(read_source_file, file) for file in files]:
            for document in wait():
                documents.setdefault(document.texts, document)
            progress.update(1, f"{len(documents):,} documents")
            if limit and len(documents) >= limit:
                break
    return list(documents.values())[: limit or None]


def read_source_file(file: SourceFile) -> list[Document]:
    """Returns the prose of the docstrings of one file; [] if the file cannot be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(pathlib.Path(file.path).read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        return []
    documents = []
    for text in find_docstrings(tree, is_topics=file.name == _TOPICS):
        if len(text) >= _MIN_CHARACTERS and (paragraphs := extract_prose(text)):
            documents.append(Document(file.library, paragraphs))
    return documents


def find_docstrings(node: ast.AST, is_topics: bool = False) -> Iterator[str]:
    """Yields the docstrings of a syntax tree.

    Also yields the docstrings that `add_newdoc` attaches to compiled objects (NumPy,
    SciPy) and, if `is_topics`, the texts of the help topics in `pydoc_data`.
    """
    if isinstance(node, (ast.Module, *_DEFINITIONS)):
        text = ast.get_docstring(node, clean=False)
        if text:
            yield text

    for child in ast.iter_child_nodes(node):
        if isinstance(child, _DEFINITIONS):
            yield from find_docstrings(child)
        elif isinstance(child, (ast.If, ast.Try, ast.With)):
            yield from find_docstrings(child, is_topics)
        elif isinstance(child, ast.Expr) and isinstance(child.value, ast.Call):
            yield from _attached_docstring(child.value)
        elif isinstance(child, ast.Assign) and is_topics:
            for text in ast.literal_eval(child.value).values():
                # The topics are text output of Sphinx, which puts literals between
                # double quotes.
                yield re.sub(r'"([^"\s]+)"', r"``\1``", text)


def _attached_docstring(call: ast.Call) -> Iterator[str]:
    if ast.unparse(call.func).rpartition(".")[2] != "add_newdoc":
        return
    *names, text = [
        node.value
        for node in ast.walk(call)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ] or [""]
    if names:
        yield text
