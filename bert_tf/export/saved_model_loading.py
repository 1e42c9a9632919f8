"""Loads a SavedModel, after checks of its files."""

import contextlib
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from bert_tf import file_checks, files, json_files
from bert_tf.errors import InputError, plain_message
from bert_tf.export import operations
from bert_tf.export.layout import CHECKED_FILES, EXTRA, FILES_SHA256
from bert_tf.json_files import OBJECT
from bert_tf.weights import FACTS_FILE, FACTS_SCHEMA

_SCHEMA = {**FACTS_SCHEMA, FILES_SHA256: OBJECT}


def load_saved_model(folder: str, trust: bool = False) -> tuple[Any, Mapping[str, Any]]:
    """Loads a SavedModel that bert-tf exported.

    Args:
        folder: The folder of a version.
        trust: Whether to load it without a check of its graph, which may then do anything that this
            process may do.

    Returns:
        The model, and its facts.

    Raises:
        InputError: A file is missing or damaged, or the graph contains anything that models of
            bert-tf do not need.
    """
    _check_files(folder)
    facts_path = os.path.join(folder, EXTRA, FACTS_FILE)
    facts = json_files.read(facts_path, _SCHEMA, own=True)
    if not trust:
        graph = operations.read_graph(folder)
        _check_graph(folder, graph)
        _check_checksums(folder, facts)
        _check_labels(facts_path, facts, graph)
    with explain_damage(folder):
        return tf.saved_model.load(folder), facts


def _check_files(folder: str) -> None:
    """Checks that no file is a pipe or a device, for which TensorFlow would wait."""
    if "://" in folder:
        return
    for pattern in ("*", "*/*"):  # TensorFlow reads no other levels
        for path in pathlib.Path(folder).glob(pattern):
            if not path.is_dir():
                file_checks.check_is_regular(str(path))


def _check_graph(folder: str, graph: Any) -> None:
    found = operations.foreign_parts(graph)
    if found:
        listed = ", ".join(found[:5]) + (", ..." if len(found) > 5 else "")
        raise InputError(
            f"{folder} is refused: a SavedModel is a program, and this one contains {listed}, "
            "which no model of bert-tf needs. It could read or write files. If you trust its "
            "author, give trust=True."
        )


def _check_checksums(folder: str, facts: Mapping[str, Any]) -> None:
    own, stated = f"{EXTRA}/{FACTS_FILE}", facts.get(FILES_SHA256) or {}
    if not stated and "facts_sha256" not in facts:
        raise InputError(
            f"{folder} has no checksums: an earlier version of bert-tf exported it. Export the "
            "model again, or give trust=True."
        )
    found = {own: (json_files.sha256_of_values(facts), facts.get("facts_sha256"))}
    for name in CHECKED_FILES:
        found[name] = files.sha256_of_file(os.path.join(folder, name)), stated.get(name)
    for name, (actual, expected) in found.items():
        if actual != expected:
            raise InputError(
                f"{os.path.join(folder, name)} was changed after the export: {own} does not state "
                "its SHA-256. Export the model again, or give trust=True."
            )


def _check_labels(path: str, facts: Mapping[str, Any], graph: Any) -> None:
    """Checks that the labels of a classifier are those in its graph."""
    signatures = graph.signature_def
    labels: Any = facts.get("labels")
    outputs = signatures["serving_default"].outputs if "serving_default" in signatures else ()
    if not {"label", "labels"} & set(outputs):
        return
    is_list = isinstance(labels, list) and all(isinstance(each, str) for each in labels)
    encoded = [each.encode("utf-8", "replace") for each in labels] if is_list else []
    if not encoded or encoded not in operations.string_lists(graph):
        raise InputError(
            f"{path} was changed after the export: its labels are not those of the model. "
            f"Received: {labels!r:.60}. Export the model again."
        )


@contextlib.contextmanager
def explain_damage(path: str) -> Iterator[None]:
    """Converts the errors of TensorFlow for a damaged model to an `InputError`.

    Raises:
        InputError: The block raised an error.
    """
    others = (
        OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, AssertionError,
        MemoryError,
    )  # fmt: skip
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        is_of_tensorflow = isinstance(error, tf.errors.OpError)
        if not is_of_tensorflow and not isinstance(error, others):
            raise
        message = plain_message(error) if is_of_tensorflow else str(error)
        reason = " ".join(message.split()).rstrip(".") or type(error).__name__
        raise InputError(
            f"{path} cannot be loaded: {reason:.300}. It is incomplete or damaged; export the "
            "model again."
        ) from error
