"""Imports packages that extras of bert-tf, such as `[onnx]`, install, without telemetry."""

import importlib
import os
import sys
from typing import Any

from bert_tf.errors import InputError


def import_package(module: str, extra: str, user: str) -> Any:
    """Imports and returns `module`, such as "pyarrow.parquet", which `extra` installs.

    ONNX Runtime since 1.29 and OpenVINO send events to their makers, with an identifier
    that they keep in the home folder. This function turns that off, unless the user has
    set ORT_DISABLE_TELEMETRY or already imported the package openvino_telemetry.

    If the import fails, raises `InputError`. The message starts with `user`, which says
    what needs the package, and tells the reason and how to install the package.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    # OpenVINO works without this package; the import of None fails.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]

    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        reason = " ".join(str(error).split()).rstrip(".")
        problem = f"cannot be imported: {reason}. Correct this, or install it again"
        if isinstance(error, ModuleNotFoundError) and error.name == package:
            problem = "is not installed. Install it"
        raise InputError(
            f"{user} needs the package {package}, which {problem}: pip install "
            f"'bert-tf[{extra}]'."
        ) from error
