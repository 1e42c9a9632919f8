"""Imports TensorFlow without its start-up lines, in programs and worker processes.

When TensorFlow is imported and lists its devices, it writes lines about oneDNN, CPU
instructions and missing CUDA drivers to stderr. TF_CPP_MIN_LOG_LEVEL suppresses only
some of these lines, because TensorFlow writes the other lines before it has read its
log level. During the import, file descriptor 2 is therefore a pipe to a process that
writes all lines except `_KNOWN_LINES` to stderr. It does so even if TensorFlow ends
this process, for example because the CPU lacks an instruction.
"""

import contextlib
import glob
import importlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from bert_tf import backend
from bert_tf.errors import InputError
from bert_tf.storage.atomic_files import temporary_folder

# The backends on which programs train. The value of KERAS_BACKEND is read before
# `set_environment` changes it.
BACKENDS = ("tensorflow", "jax")
_KERAS_BACKEND = os.environ.get("KERAS_BACKEND")
# A line that explains why TensorFlow uses no GPU contains one of these texts.
_GPU_REASONS = (
    "Could not find cuda drivers on your machine",
    "failed call to cuInit",
    "Could not load dynamic library",
    "Cannot dlopen some GPU libraries",
)
# A line of TensorFlow that contains one of these texts needs no action of the user. The
# same is true of a line of `_GPU_REASONS` on a machine without a GPU.
_KNOWN_LINES = (
    "Skipping registering GPU devices",
    "All log messages before absl::InitializeLog() is called",
    "oneDNN custom operations are on",
    "This TensorFlow binary is optimized to use available CPU instructions",
    "To enable the following instructions",
    "Unable to register cuDNN factory",
    "Unable to register cuFFT factory",
    "Unable to register cuBLAS factory",
    "Computation placer creation function is already registered",
    "computation placer already registered",
    "successful NUMA node read from SysFS had negative value",
    "could not open file to read NUMA node",
    "Your kernel may have been built without NUMA support",
    "TF-TRT Warning",
    "cuda_diagnostics.cc",
)
# The program of the process at the other end of the pipe.
_FILTER = """
import os, sys
known = [os.fsencode(text) for text in sys.argv[1:]]
for line in sys.stdin.buffer:
    if not any(text in line for text in known):
        os.write(2, line)
"""


def set_environment(keras_backend: str = "tensorflow") -> None:
    """Sets the variables of TensorFlow and Keras for this process and its children.

    Keras is Keras 3 and uses `keras_backend`, unless Keras is imported already, such as in a
    notebook that creates records. TF_CPP_MIN_LOG_LEVEL=1 hides lines of later
    operations, such as the compilation by XLA. TF_ENABLE_ONEDNN_OPTS=1 switches oneDNN
    on: TensorFlow does so by itself only on processors with AVX512 or AMX instructions,
    but oneDNN is faster on others too. If the user has set one of the last two
    variables, its value is kept.
    """
    if "keras" not in sys.modules:
        os.environ["KERAS_BACKEND"] = keras_backend
        os.environ["TF_USE_LEGACY_KERAS"] = "0"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


def import_backend(name: str | None) -> None:
    """Imports TensorFlow, and selects the backend of Keras for a program that trains.

    `name` is "tensorflow" or "jax"; None for the value of KERAS_BACKEND when the
    program started. On any other value of KERAS_BACKEND, the backend is TensorFlow.

    Raises:
        InputError: JAX is not installed.
    """
    selected = name or _KERAS_BACKEND or "tensorflow"
    if selected not in BACKENDS:
        print(
            f"KERAS_BACKEND is {selected}, but this program runs on "
            f"{' or '.join(BACKENDS)}. It uses tensorflow.",
            file=sys.stderr,
        )
        selected = "tensorflow"
    if selected == "jax" and importlib.util.find_spec("jax") is None:
        raise InputError(
            "backend=jax needs the package jax, which is not installed. Run pip "
            "install 'bert-tf[backends]', or jax[cuda13] or jax[tpu] for accelerators; "
            "JAX 0.10 needs Python 3.11 or newer."
        )
    import_tensorflow(selected == "tensorflow", selected)
    if selected != "tensorflow":
        importlib.import_module("tensorflow")
        backend.hide_accelerators()


def import_tensorflow(
    report_unused_gpus: bool = True, keras_backend: str = "tensorflow"
) -> None:
    """Imports TensorFlow without its start-up lines; called after the check of the flags.

    The import also lists the devices. If the user has set TF_CPP_MIN_LOG_LEVEL=0,
    nothing is hidden. With `report_unused_gpus`, a line on stderr says if TensorFlow
    uses no GPU although this machine has one, and the lines of TensorFlow that give the
    reason are not hidden.
    """
    # TensorFlow needs a temporary folder when it is imported.
    temporary_folder().cleanup()
    # TensorFlow imports Keras, so the backend is selected first.
    set_environment(keras_backend)
    if "tensorflow" in sys.modules or os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0":
        return
    device_files = sorted(glob.glob("/dev/nvidia[0-9]*")) if report_unused_gpus else []
    with quiet_stderr(shows_gpu_reasons=bool(device_files)):
        tensorflow: Any = importlib.import_module("tensorflow")
        gpus = tensorflow.config.list_physical_devices("GPU")
    if device_files and not gpus:
        print(
            f"This machine has {', '.join(device_files)}, but TensorFlow lists no GPU. "
            "If there are lines above, they give the reason. TF_CPP_MIN_LOG_LEVEL=0 "
            "shows all lines of TensorFlow.",
            file=sys.stderr,
        )


@contextlib.contextmanager
def quiet_stderr(shows_gpu_reasons: bool = False) -> Iterator[None]:
    """Hides known lines that are written to file descriptor 2, and shows all others.

    With `shows_gpu_reasons`, lines that explain why there is no GPU are shown too.
    """
    known = _KNOWN_LINES if shows_gpu_reasons else (*_KNOWN_LINES, *_GPU_REASONS)
    sys.stderr.flush()
    # In its own session, the process does not receive the SIGINT of Ctrl-C.
    command = [sys.executable, "-I", "-S", "-c", _FILTER, *known]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdin
        stderr = os.dup(2)
        os.dup2(process.stdin.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
