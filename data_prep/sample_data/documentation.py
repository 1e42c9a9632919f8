"""Docstrings of the standard library and of installed packages, read from their source files.

Source files are parsed, never imported: nothing of what is installed runs, and the result depends
on the files alone. Imports nothing of ours but the pure parts beside it; safe in worker processes.
"""

import ast
import concurrent.futures
import gc
import importlib.metadata
import multiprocessing
import os
import platform
import re
import sys
import sysconfig
import warnings
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from data_prep.sample_data import cleaning

# The requirements of bert-tf and what these require, with the folders that hold their code. A
# fixed list: whatever else is installed (a test runner, say) must not change the text.
DISTRIBUTIONS = (
    ("keras", ("keras",)),
    ("numpy", ("numpy",)),
    ("scipy", ("scipy",)),
    ("scikit-learn", ("sklearn",)),
    ("tensorflow", ("tensorflow",)),
    ("tensorflow-text", ("tensorflow_text",)),
    ("tensorflow-datasets", ("tensorflow_datasets",)),
    ("tensorboard", ("tensorboard",)),
    ("absl-py", ("absl",)),
    ("attrs", ("attr", "attrs")),
    ("einops", ("einops",)),
    ("etils", ("etils",)),
    ("fsspec", ("fsspec",)),
    ("grpcio", ("grpc",)),
    ("h5py", ("h5py",)),
    ("joblib", ("joblib",)),
    ("Markdown", ("markdown",)),
    ("narwhals", ("narwhals",)),
    ("optree", ("optree",)),
    ("packaging", ("packaging",)),
    ("pillow", ("PIL",)),
    ("protobuf", ("google/protobuf",)),
    ("psutil", ("psutil",)),
    ("pyarrow", ("pyarrow",)),
    ("Pygments", ("pygments",)),
    ("requests", ("requests",)),
    ("rich", ("rich",)),
    ("simple-parsing", ("simple_parsing",)),
    ("tqdm", ("tqdm",)),
    ("urllib3", ("urllib3",)),
    ("Werkzeug", ("werkzeug",)),
    ("wrapt", ("wrapt",)),
)
PYTHON = "python"
# The libraries with the most documentation; those that the classification tells apart.
LABELS = (PYTHON, "tensorflow", "keras", "numpy", "scipy", "scikit-learn")

_SKIPPED_FOLDERS = {
    *("test", "tests", "testing", "idlelib", "lib2to3", "turtledemo", "ensurepip", "include"),
    *("_vendor", "_vendored", "vendored", "externals", "_external", "extern", "third_party"),
    *("array_api_compat", "array_api_extra"),
    *("__pycache__", "site-packages", "dist-packages"),
}
# Frozen copies of another library of the list: their text would carry the wrong label.
_SKIPPED_PATHS = ("tensorflow/python/keras/", "tensorflow/_api/", "keras/_tf_keras/", "keras/api/")
_MIN_CHARACTERS = 80
_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Source:
    """One source file.

    Attributes:
        library: The distribution it belongs to, or "python".
        path: Where it lies on this machine.
        name: The name below the folder that holds the package, with "/", on all machines alike.
    """

    library: str
    path: str
    name: str


@dataclass(frozen=True)
class Document:
    """The prose of one docstring.

    Attributes:
        library: The distribution it comes from, or "python".
        name: The dotted name of what it documents.
        paragraphs: Its text, in order.
    """

    library: str
    name: str
    paragraphs: tuple[cleaning.Paragraph, ...]


def versions() -> tuple[dict[str, str], list[str]]:
    """The version of Python and of each installed distribution, and the distributions missing."""
    found, missing = {PYTHON: platform.python_version()}, []
    for name, _ in DISTRIBUTIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    return found, missing


def sources(libraries: tuple[str, ...] = ()) -> list[Source]:
    """The source files, library after library, sorted by name within each.

    Args:
        libraries: Those to take; none means all of `DISTRIBUTIONS` and the standard library.
    """
    found = []
    if not libraries or PYTHON in libraries:
        found += _standard_library()
    for distribution, folders in DISTRIBUTIONS:
        if libraries and distribution not in libraries:
            continue
        try:
            installed = importlib.metadata.distribution(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
        for folder in folders:
            root = str(installed.locate_file(folder))
            found += _folder(distribution, root, folder)
    return found


def _standard_library() -> list[Source]:
    root = sysconfig.get_path("stdlib")
    found = []
    for name in sorted(sys.stdlib_module_names - _SKIPPED_FOLDERS):
        path = os.path.join(root, f"{name}.py")
        if os.path.isfile(path):
            found.append(Source(PYTHON, path, f"{name}.py"))
        found += _folder(PYTHON, os.path.join(root, name), name)
    return found


def _folder(library: str, root: str, name: str) -> list[Source]:
    found = []
    for folder, inside, files in os.walk(root):
        inside[:] = [each for each in inside if each not in _SKIPPED_FOLDERS]
        relative = os.path.relpath(folder, root).replace(os.sep, "/")
        prefix = f"{name}/" if relative == "." else f"{name}/{relative}/"
        found += [
            Source(library, os.path.join(folder, file), prefix + file)
            for file in files
            if file.endswith(".py") and not re.search(r"(^test_|_test\.py$|^conftest)", file)
        ]
    found = [each for each in found if not each.name.startswith(_SKIPPED_PATHS)]
    return sorted(found, key=lambda source: source.name)


def harvest(
    files: list[Source], num_workers: int
) -> Generator[tuple[int, list[Document]], None, None]:
    """Reads and cleans the docstrings of files, in the order of the files.

    Args:
        files: What to read. Files that do not parse are passed over.
        num_workers: Processes; the result does not depend on it.

    Yields:
        The number of files read, and their documents.
    """
    chunks = [files[start : start + 32] for start in range(0, len(files), 32)]
    if num_workers == 1:
        yield from ((len(chunk), _read_chunk(chunk)) for chunk in chunks)
        return
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(num_workers, context) as pool:
        try:
            for chunk, documents in zip(chunks, pool.map(_read_chunk, chunks), strict=True):
                yield len(chunk), documents
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _read_chunk(files: list[Source]) -> list[Document]:
    # Syntax trees hold no cycles: collecting only costs time.
    gc.disable()
    try:
        return [document for file in files for document in read(file)]
    finally:
        gc.enable()


def read(source: Source) -> list[Document]:
    """The documents of one file, in the order of the file."""
    with open(source.path, "rb") as file:
        content = file.read()
    if b'"""' not in content and b"'''" not in content:
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError):
        return []
    module = source.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    documents = []
    for name, text in docstrings(tree, module):
        paragraphs = cleaning.clean(text) if len(text) >= _MIN_CHARACTERS else ()
        if paragraphs:
            documents.append(Document(source.library, name, paragraphs))
    return documents


def docstrings(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
    """Each docstring below a syntax tree with the dotted name of what it documents.

    Besides the usual places: what `add_newdoc` calls attach to compiled objects (NumPy, SciPy),
    and the topics of `pydoc_data`.
    """
    if isinstance(node, (ast.Module, *_DEFINITIONS)):
        text = ast.get_docstring(node, clean=False)
        if text:
            yield name, text
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _DEFINITIONS):
            yield from docstrings(child, f"{name}.{child.name}")
        elif isinstance(child, (ast.If, ast.Try, ast.With)):
            yield from docstrings(child, name)
        elif isinstance(child, ast.Expr) and isinstance(child.value, ast.Call):
            yield from _attached(child.value)
        elif isinstance(child, ast.Assign) and name == "pydoc_data.topics":
            yield from _topics(child.value)


def _attached(call: ast.Call) -> Iterator[tuple[str, str]]:
    function = call.func.attr if isinstance(call.func, ast.Attribute) else call.func
    if (function.id if isinstance(function, ast.Name) else function) != "add_newdoc":
        return
    strings = [
        each.value
        for argument in call.args
        for each in ast.walk(argument)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    if len(strings) > 1:
        yield ".".join(strings[:-1]), strings[-1]


def _topics(table: ast.expr) -> Iterator[tuple[str, str]]:
    if not isinstance(table, ast.Dict):
        return
    for key, value in zip(table.keys, table.values, strict=True):
        topic, text = getattr(key, "value", None), getattr(value, "value", None)
        if isinstance(topic, str) and isinstance(text, str):
            # Sphinx's text output writes literals between double quotes.
            yield f"pydoc_data.topics.{topic}", re.sub(r'"([^"\s]+)"', r"``\1``", text)
