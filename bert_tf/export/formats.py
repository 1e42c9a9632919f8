"""The formats of exports.

A new format needs an entry in `FORMATS` and a module for its files. This module imports
no TensorFlow, so that programs can read the choices before they import it.
"""

import contextlib
import importlib
import logging
from collections.abc import Iterator
from typing import Any, NamedTuple

from bert_tf.errors import InputError
from bert_tf.optional_packages import import_package


class ExportCheckError(InputError):
    """The exported model and the model in memory have different outputs."""


class Format(NamedTuple):
    """A format of exports.

    Attributes:
        title: The name of the format in reports.
        precisions: The dtypes that the weights can have.
        module: The name, in `bert_tf.export`, of the module that writes and opens files
            with `prepare` and `open_file` (see `model_file`), and imports TensorFlow;
            "" for the SavedModel, which is a folder.
        extra: The extra of bert-tf that installs the packages that the format needs.
        to_run: The modules that are needed to run a file.
        to_write: The modules that are needed to write a file.
    """

    title: str
    precisions: tuple[str, ...]
    module: str = ""
    extra: str = ""
    to_run: tuple[str, ...] = ()
    to_write: tuple[str, ...] = ()


FORMATS = {
    "saved_model": Format("SavedModel", ("float32", "bfloat16")),
    "tflite": Format(
        "TFLite",
        ("float32", "float16", "int8"),
        "lite.conversion",
        "lite",
        to_run=("ai_edge_litert.interpreter",),
        to_write=("ai_edge_litert.interpreter",),
    ),
    "onnx": Format(
        "ONNX",
        ("float32", "int8"),
        "onnx.conversion",
        "onnx",
        to_run=("onnxruntime", "onnx"),
        to_write=("onnx", "onnxruntime", "tf2onnx"),
    ),
}
# What runs ONNX files: names of modules, and "auto", for which `onnx.conversion` chooses
# a module.
RUNTIMES = ("auto", "onnxruntime", "openvino")
# The formats whose models are single files. A key is also the name of their folder in a
# version, the ending of the files, and the start of the names of their settings.
FILE_FORMATS = {name: each for name, each in FORMATS.items() if each.module}


def format_of_file(path: str) -> str:
    """Returns the format that the ending of a path names; "" if there is none."""
    return next((name for name in FILE_FORMATS if path.endswith(f".{name}")), "")


def module_of(name: str) -> Any:
    """Imports and returns the module that writes and opens files of a format."""
    return importlib.import_module(f"bert_tf.export.{FILE_FORMATS[name].module}")


def check_installed(name: str, to_write: bool = False) -> None:
    """Raises `InputError` if a package to run (or, if `to_write`, to write) files is missing."""
    file_format = FILE_FORMATS[name]
    for module in file_format.to_write if to_write else file_format.to_run:
        import_package(module, file_format.extra, "This format")


@contextlib.contextmanager
def as_export_check_error(name: str) -> Iterator[None]:
    """Raises any error of a converter as `ExportCheckError`; hides all logged warnings."""
    disabled = logging.root.manager.disable
    logging.disable(max(disabled, logging.WARNING))
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split())
        raise ExportCheckError(
            f"{FILE_FORMATS[name].title} cannot represent the model: {reason:.300} "
            "Nothing was exported."
        ) from error
    finally:
        logging.disable(disabled)
