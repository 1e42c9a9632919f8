"""Imports TensorFlow without its start-up lines, in main programs and their worker processes.

When TensorFlow is imported and lists its devices, it writes lines about oneDNN, CPU instructions
and missing CUDA drivers to stderr. TF_CPP_MIN_LOG_LEVEL suppresses only some of these lines,
because TensorFlow writes the others before it has read its log level. During the import, file
descriptor 2 is therefore a pipe to a process that writes all lines except `KNOWN_LINES` to stderr,
also if TensorFlow ends this process, for example because the CPU lacks an instruction.
"""

import contextlib
import glob
import importlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
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
# The program of the process at the other end of the pipe. At the end, it writes the hidden lines to
# stdout; if the process that reads them was killed, it ends without a message.
_FILTER = """
import os, signal, sys
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
known = [os.fsencode(text) for text in sys.argv[1:]]
hidden = []
for line in sys.stdin.buffer:
    if any(text in line for text in known):
        hidden.append(line)
    else:
        os.write(2, line)
sys.stdout.buffer.writelines(hidden)
"""


def set_environment() -> None:
    """Sets the variables of TensorFlow and Keras for this process and its child processes.

    Keras uses TensorFlow. TF_CPP_MIN_LOG_LEVEL=1 hides lines of later operations, such as the
    compilation by XLA; a value that the user has set is kept.
    """
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")


def import_tensorflow(report_unused_gpus: bool = True) -> None:
    """Imports TensorFlow without its start-up lines, after a program has checked its flags.

    The import also lists the devices. If the user has set TF_CPP_MIN_LOG_LEVEL=0, nothing is
    hidden.

    Args:
        report_unused_gpus: Whether a line on stderr says that TensorFlow uses no GPU although this
            machine has one.
    """
    set_environment()
    if "tensorflow" in sys.modules or os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0":
        return
    with quiet_stderr() as lines:
        tensorflow: Any = importlib.import_module("tensorflow")
        gpus = tensorflow.config.list_physical_devices("GPU")
    note = unused_gpu_note(sorted(glob.glob("/dev/nvidia[0-9]*")), lines, gpus)
    if report_unused_gpus and note:
        print(note, file=sys.stderr)


@contextlib.contextmanager
def quiet_stderr() -> Iterator[list[str]]:
    """Writes all output to file descriptor 2 except known lines to stderr.

    Yields:
        A list, which at the end contains the hidden lines.
    """
    hidden: list[str] = []
    sys.stderr.flush()
    # In its own session, the process does not receive the SIGINT of Ctrl-C.
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _FILTER, *KNOWN_LINES],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdin
        stderr = os.dup(2)
        os.dup2(process.stdin.fileno(), 2)
        try:
            yield hidden
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            hidden += process.communicate()[0].decode(errors="replace").splitlines()


def unused_gpu_note(
    device_files: Sequence[str], lines: Sequence[str], gpus: Sequence[Any]
) -> str | None:
    """Returns one line that says why TensorFlow uses no GPU, or None if no GPU is unused.

    Args:
        device_files: The device files of the GPUs of this machine, such as /dev/nvidia0.
        lines: The lines that TensorFlow wrote when it listed its devices.
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
