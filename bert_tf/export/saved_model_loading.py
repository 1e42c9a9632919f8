"""Loads a SavedModel, after checks of its files."""

import itertools
import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bert_tf.errors import InputError, plain_message
from bert_tf.export import operations
from bert_tf.export.layout import CHECKED_FILES, EXTRA, FILES_SHA256
from bert_tf.storage import files, json_files, sealed
from bert_tf.storage.weights import FACTS_FILE, FACTS_SCHEMA

_WEIGHTS = "variables/variables.data-00000-of-00001"


def load_saved_model(folder: str, trust: bool = False) -> tuple[Any, Mapping[str, Any]]:
    """Loads a SavedModel that bert-tf exported.

    Args:
        folder: The folder of a version.
        trust: Whether to load it without a check of its graph, which may then do
            anything that this process may do.

    Returns:
        The model, and its facts.

    Raises:
        InputError: A file is missing, damaged or was changed, or the graph contains
            anything that models of bert-tf do not need.
    """
    facts = json_files.read(
        os.path.join(folder, EXTRA, FACTS_FILE), FACTS_SCHEMA, own=True
    )
    if not trust:
        _check_graph(folder)
        _check_checksums(folder, facts)
    try:
        with files.path_without_globs(folder) as readable:
            return tf.saved_model.load(readable), facts
    except Exception as error:  # a damaged model leads to errors of many classes
        message = (
            plain_message(error) if isinstance(error, tf.errors.OpError) else str(error)
        )
        reason = " ".join(message.split()).rstrip(".") or type(error).__name__
        path = os.path.join(folder, _WEIGHTS) if "Read less bytes" in reason else folder
        raise InputError(
            f"{path} cannot be loaded: {reason:.300}. It is incomplete or damaged; "
            "export or copy the model again."
        ) from error


def _check_graph(folder: str) -> None:
    found = operations.foreign_parts(operations.read_graph(folder))
    if found:
        listed = ", ".join(found[:5]) + (", ..." if len(found) > 5 else "")
        raise InputError(
            f"{folder} is refused: a SavedModel is a program, and this one contains "
            f"{listed}, which no model of bert-tf needs. It could read or write files. "
            "If you trust its author, give trust=True."
        )


def _check_checksums(folder: str, facts: Mapping[str, Any]) -> None:
    own, listed = f"{EXTRA}/{FACTS_FILE}", facts.get(FILES_SHA256, {})
    stated = {name: listed.get(name) for name in CHECKED_FILES}
    changed = [] if sealed.is_sealed(facts) else [os.path.join(folder, own)]
    for path in itertools.chain(changed, sealed.changed_files(folder, stated)):
        raise InputError(
            f"{path} was changed after the export: {own} does not state its SHA-256. "
            "Export the model again, or give trust=True."
        )
