"""Checks whether the backend of Keras supports a part of bert-tf.

If the backend is JAX or PyTorch, this module also hides the GPUs from TensorFlow.
"""

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Collection

from bert_tf.errors import InputError

# Remedies in error messages, for users of another backend than TensorFlow.
_TRAIN = "Set KERAS_BACKEND to jax, or set"
_EXPORT = (
    "Save the model with bert_tf.save_checkpoint, and then run export_model.py, which "
    "uses TensorFlow; or set"
)


def check_docstrings() -> None:
    """Checks that Python has not removed the docstrings, as it does with -OO.

    Without docstrings, TensorFlow Text cannot be imported, and programs cannot describe
    their flags.
    """
    if sys.flags.optimize > 1:
        raise InputError(
            "bert-tf needs docstrings, which Python removes with -OO or "
            "PYTHONOPTIMIZE=2. Leave out -OO, and unset PYTHONOPTIMIZE."
        )


def _check_legacy_keras() -> None:
    """Raises `InputError` if TF_USE_LEGACY_KERAS is set, but tf_keras is not installed."""
    value = os.environ.get("TF_USE_LEGACY_KERAS")
    if value in ("1", "true", "True") and not importlib.util.find_spec("tf_keras"):
        raise InputError(
            f"TensorFlow Text cannot be imported with TF_USE_LEGACY_KERAS={value}, "
            "because tf_keras is not installed. Unset TF_USE_LEGACY_KERAS: bert-tf "
            "uses Keras 3."
        )


def check_backend(name: str, module: str, backends: Collection[str]) -> None:
    """Checks that a public name of `bert_tf` works with the backend of Keras.

    `module` is the module that defines the name, without the prefix "bert_tf.".

    Raises:
        InputError: Keras has a backend that is not in `backends`; or
            KERAS_BACKEND is unknown, or differs from the backend that Keras uses; or
            the backend or TensorFlow Text cannot be imported.
    """
    check_docstrings()
    _check_legacy_keras()
    try:
        backend = importlib.import_module("keras").config.backend()
    except ModuleNotFoundError as error:
        raise InputError(
            f"Keras cannot use its backend, because {error.name} is not installed. "
            "Install it (docs/backends.md), or set KERAS_BACKEND=tensorflow in the "
            "environment."
        ) from None
    except ValueError as error:  # such as a typo
        raise InputError(
            f"{error}. Set KERAS_BACKEND to tensorflow, jax or torch."
        ) from None

    expected = os.environ.get("KERAS_BACKEND") or backend
    if expected != backend:
        raise InputError(
            f"KERAS_BACKEND is {expected}, but Keras was imported with {backend} before. "
            "Start Python again, and set KERAS_BACKEND before keras is imported."
        )
    if backend not in backends:
        remedy = _EXPORT if module.startswith("export.") else _TRAIN
        raise InputError(
            f"bert_tf.{name} needs the backend {' or '.join(backends)} of Keras. "
            f"Received: {backend}. {remedy} "
            "KERAS_BACKEND=tensorflow in the environment before keras is imported."
        )


def check_dynamic_shapes() -> None:
    """Checks that the backend supports `skip_padding`: raises `InputError` for JAX.

    `skip_padding` needs shapes that depend on values. JAX compiles for fixed shapes.
    """
    if importlib.import_module("keras").config.backend() == "jax":
        raise InputError(
            "skip_padding needs shapes that depend on the values of a batch, and JAX "
            "has fixed shapes only. Leave it False, or set KERAS_BACKEND to tensorflow "
            "or torch in the environment before keras is imported."
        )


def hide_accelerators() -> None:
    """Hides the GPUs from TensorFlow if Keras uses another backend.

    TensorFlow then only tokenizes and reads files, but would reserve all GPU memory.
    """
    keras, tensorflow = sys.modules.get("keras"), sys.modules.get("tensorflow")
    backend = keras.config.backend() if keras else os.environ.get("KERAS_BACKEND")
    if tensorflow and backend not in (None, "", "tensorflow"):
        # If TensorFlow has already used a GPU, it keeps the GPUs and raises this error.
        with contextlib.suppress(RuntimeError):
            tensorflow.config.set_visible_devices([], "GPU")
