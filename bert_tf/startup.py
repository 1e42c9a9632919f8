"""Imports TensorFlow without its start-up lines, in main programs and their worker processes.

When TensorFlow is imported and lists its devices, it writes lines about oneDNN, CPU instructions
and missing CUDA drivers to stderr. TF_CPP_MIN_LOG_LEVEL suppresses only some of these lines,
because TensorFlow writes the others before it has read its log level. During the import, file
descriptor 2 is therefore a pipe to a process that writes all lines except `KNOWN_LINES` to stderr,
also if TensorFlow ends this process, for example because the CPU lacks an instruction.
"""

import contextlib
import functools
import glob
import importlib.abc
import importlib.machinery
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

# A line that explains why TensorFlow uses no GPU contains one of these texts.
_GPU_REASONS = (
    "Could not find cuda drivers on your machine",
    "failed call to cuInit",
    "Could not load dynamic library",
    "Cannot dlopen some GPU libraries",
)
# A line of TensorFlow that contains one of these texts needs no action of the user.
KNOWN_LINES = (
    *_GPU_REASONS,
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
# The program of the process at the other end of the pipe. It writes the lines with a reason why no
# GPU is used to stdout. They are few: if that pipe were full, both processes would wait for ever.
_FILTER = """
import os, sys
number, *texts = sys.argv[1:]
texts = [os.fsencode(text) for text in texts]
for line in sys.stdin.buffer:
    if any(text in line for text in texts[:int(number)]):
        sys.stdout.buffer.write(line)
    elif not any(text in line for text in texts):
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()
"""


def quiet_tensorflow_import(report_unused_gpus: bool = True) -> None:
    """Makes the next import of TensorFlow in this process write no start-up lines.

    If Keras is imported later, here or in a child process, it uses TensorFlow.

    The import also lists the devices. Lines of later operations, such as the compilation by XLA,
    are suppressed by TF_CPP_MIN_LOG_LEVEL=1, which this function sets for this process and its
    child processes if the variable is not set. If the user has set TF_CPP_MIN_LOG_LEVEL=0, nothing
    is suppressed.

    Args:
        report_unused_gpus: Whether a line on stderr says that TensorFlow uses no GPU although this
            machine has one.
    """
    os.environ["KERAS_BACKEND"] = "tensorflow"
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1") != "0":
        sys.meta_path.insert(0, _QuietFinder(report_unused_gpus))


class _QuietFinder(importlib.abc.MetaPathFinder):
    """Finds TensorFlow for the import system, and changes how TensorFlow is executed."""

    def __init__(self, report_unused_gpus: bool) -> None:
        self._report = report_unused_gpus

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns the specification of TensorFlow, and None for other modules."""
        if name != "tensorflow":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            execute = functools.partial(_execute, spec.loader.exec_module, self._report)
            spec.loader.exec_module = execute  # type: ignore[method-assign]
        return spec


def _execute(execute: Callable[[ModuleType], None], report: bool, tensorflow: Any) -> None:
    with quiet_stderr() as lines:
        execute(tensorflow)
        gpus = tensorflow.config.list_physical_devices("GPU")
    note = unused_gpu_note(sorted(glob.glob("/dev/nvidia[0-9]*")), lines, gpus)
    if report and note:
        print(note, file=sys.stderr)


@contextlib.contextmanager
def quiet_stderr() -> Iterator[list[str]]:
    """Writes all output to file descriptor 2 except known lines to stderr.

    Yields:
        A list, which at the end contains the lines that state why no GPU is used.
    """
    reasons: list[str] = []
    if sys.stderr is None:  # the process has no file descriptor 2
        yield reasons
        return
    sys.stderr.flush()
    # In its own session, the process does not receive the SIGINT of Ctrl-C.
    command = [sys.executable, "-I", "-S", "-c", _FILTER, str(len(_GPU_REASONS)), *KNOWN_LINES]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdin
        stderr = os.dup(2)
        os.dup2(process.stdin.fileno(), 2)
        try:
            yield reasons
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            reasons += process.communicate()[0].decode(errors="replace").splitlines()


def unused_gpu_note(
    device_files: Sequence[str], lines: Sequence[str], gpus: Sequence[Any]
) -> str | None:
    """Returns one line that says why TensorFlow uses no GPU, or None if no GPU is unused.

    Args:
        device_files: The device files of the GPUs of this machine, such as /dev/nvidia0.
        lines: The lines with reasons that TensorFlow wrote when it listed its devices.
        gpus: The GPUs that TensorFlow lists.
    """
    if gpus or not device_files:
        return None
    # A log line of TensorFlow is "E0000 <time> <thread> cuda_platform.cc:52] <message>".
    messages = [line.split("] ", 1)[-1].strip() for line in lines]
    reasons = [text for text in messages if any(reason in text for reason in _GPU_REASONS)]
    reason = " ".join(text.rstrip(".") + "." for text in dict.fromkeys(reasons))
    return (
        f"This machine has {', '.join(device_files)}, but TensorFlow lists no GPU: "
        f"{reason or 'it gives no reason. Set TF_CPP_MIN_LOG_LEVEL=0 to see all of its messages.'}"
    )
