"""The start of a main: TensorFlow's start-up lines are hidden, all others shown."""

import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest
import tiny_bert
import tiny_corpus
from json_files import write_json

ROOT = pathlib.Path(__file__).parents[2]
# Lines that TensorFlow 2.21 writes on a machine without a GPU.
PREFIX = "0000 00:00:1795298059.260165   14632"
CUINIT = (
    f"E{PREFIX} cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error: "
    "Failed call to cuInit: UNKNOWN ERROR (303)"
)
KNOWN = [
    "WARNING: All log messages before absl::InitializeLog() is called are written to "
    "STDERR",
    f"I{PREFIX} port.cc:153] oneDNN custom operations are on. You may see slightly "
    "different numerical results due to floating-point round-off errors.",
    f"I{PREFIX} cpu_feature_guard.cc:227] This TensorFlow binary is optimized to use "
    "available CPU instructions in performance-critical operations.",
    "To enable the following instructions: AVX2 FMA, in other operations, rebuild "
    "TensorFlow.",
    CUINIT,
]
UNKNOWN = f"W{PREFIX} plugin.cc:7] The plug-in for my accelerator is too old."


PROGRAM = """
import sys
from absl import flags
from bert_tf.program import command_line, config_flags, startup
from bert_tf.errors import InputError

config_flags.define_path("output_dir", "", "run")

def main():
    assert ("tensorflow" in sys.modules) == ("://" in flags.FLAGS.output_dir)
    startup.import_tensorflow()
    import tensorflow

    raise InputError("the end of the program.")

command_line.run(main)
"""


def run_with_tensorflow(tmp_path, last_lines, *flags, given=(), program=PROGRAM):
    """Runs a program with a TensorFlow that writes known and unknown lines.

    The lines are written to file descriptor 2, as TensorFlow's C++ code does. `given`
    has pairs of variables of the environment and their values.
    """
    package = tmp_path / "tensorflow"
    package.mkdir()
    text = "\n".join([*KNOWN, UNKNOWN]) + "\n"
    (package / "__init__.py").write_text(
        f"import os\nos.write(2, {text.encode()!r})\n{last_lines}"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": f"{tmp_path}:{ROOT}",
        "KERAS_BACKEND": "jax",
        "TF_USE_LEGACY_KERAS": "1",
    }
    for name in ("TF_CPP_MIN_LOG_LEVEL", "TF_ENABLE_ONEDNN_OPTS"):
        environment.pop(name, None)
    environment |= dict(given)
    return subprocess.run(
        [sys.executable, "-c", program, *flags],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


LOADED = """
# Not the backend that the user has set.
assert os.environ["KERAS_BACKEND"] == "tensorflow"
assert os.environ["TF_USE_LEGACY_KERAS"] == "0"
assert os.environ["TF_ENABLE_ONEDNN_OPTS"] == "1"
class config:
    @staticmethod
    def list_physical_devices(kind):
        os.write(2, b"a line from the search for devices\\n")
        return []
"""


@pytest.mark.parametrize(
    "flags", [[], ["--output_dir=gs://bucket/run"]], ids=["local", "remote"]
)
def test_known_lines_are_hidden_and_other_lines_are_kept(tmp_path, flags):
    """Checks of a remote path need TensorFlow, which is imported before the main."""
    result = run_with_tensorflow(tmp_path, LOADED, *flags)
    assert result.returncode == 2
    assert result.stderr.splitlines() == [
        UNKNOWN, "a line from the search for devices", "error: the end of the program."
    ]  # fmt: skip


def test_values_of_the_user_are_kept_and_log_level_0_shows_all_lines(tmp_path):
    given = [("TF_CPP_MIN_LOG_LEVEL", "0"), ("TF_ENABLE_ONEDNN_OPTS", "0")]
    loaded = LOADED.replace('ONEDNN_OPTS"] == "1"', 'ONEDNN_OPTS"] == "0"')
    result = run_with_tensorflow(tmp_path, loaded, given=given)
    assert result.stderr.splitlines()[: len(KNOWN) + 1] == [*KNOWN, UNKNOWN]


def test_failed_import_shows_the_text_and_the_traceback(tmp_path):
    result = run_with_tensorflow(
        tmp_path, "raise ImportError('libfirst.so: cannot open')"
    )
    assert result.returncode == 1
    lines = result.stderr.splitlines()
    assert lines[0] == UNKNOWN
    assert "Traceback (most recent call last):" in lines
    assert lines[-1] == "ImportError: libfirst.so: cannot open"


@pytest.mark.parametrize("name", ["SIGILL", "SIGKILL"])
def test_import_that_ends_the_process_keeps_other_lines(tmp_path, name):
    number = signal.Signals[name]
    last = f"os.write(2, b'needs AVX2\\n')\nos.kill(os.getpid(), {int(number)})"
    result = run_with_tensorflow(tmp_path, last)
    assert result.returncode == -number
    # `capture_output` reads stderr until the watcher process has also closed it. After
    # these lines, Python's fault handler adds the call stack for some signals.
    assert result.stderr.splitlines()[:2] == [UNKNOWN, "needs AVX2"]


@pytest.mark.parametrize("gpus", [[], ["GPU:0"]])
def test_an_unused_gpu_is_reported_after_the_lines_with_the_reason(tmp_path, gpus):
    # A machine with two GPUs.
    fake = "import glob\nglob.glob = lambda _: ['/dev/nvidia1', '/dev/nvidia0']\n"
    program = fake + PROGRAM
    loaded = LOADED.replace("return []", f"return {gpus}")
    result = run_with_tensorflow(tmp_path, loaded, program=program)
    note = (
        "This machine has /dev/nvidia0, /dev/nvidia1, but TensorFlow lists no GPU. If "
        "there are lines above, they give the reason. TF_CPP_MIN_LOG_LEVEL=0 shows all "
        "lines of TensorFlow."
    )
    assert result.stderr.splitlines() == [
        CUINIT,
        UNKNOWN,
        "a line from the search for devices",
        *([] if gpus else [note]),
        "error: the end of the program.",
    ]


@pytest.mark.slow
def test_stderr_of_a_run_has_only_lines_of_the_program(tmp_path):
    (tmp_path / "corpus.txt").write_text(tiny_corpus.text_of(tiny_corpus.corpus(20)))
    sizes = {"vocab_size": len(tiny_corpus.VOCABULARY), "max_position_embeddings": 32}
    write_json(tmp_path / "config.json", {**tiny_bert.CONFIG, **sizes})
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)

    def run(script, **flags):
        words = [f"--{name}={value}" for name, value in flags.items()]
        return subprocess.run(
            [sys.executable, ROOT / script, *words],
            env=environment, capture_output=True, text=True, check=True, timeout=300,
        ).stderr.splitlines()  # fmt: skip

    records, vocabulary = tmp_path / "r.tfrecord", tiny_corpus.vocabulary_file(tmp_path)
    sizes = {
        "max_seq_length": 32,
        "max_predictions_per_seq": 5,
        "vocab_file": vocabulary,
    }
    input_file = tmp_path / "corpus.txt"
    creation = run(
        "data_prep/create_pretraining_data.py",
        input_file=input_file, output_file=records, **sizes,
    )  # fmt: skip
    assert creation[0].startswith("reading: ")
    training = run(
        "run_scripts/run_pretraining.py",
        input_file=records,
        bert_config_file=tmp_path / "config.json",
        output_dir=tmp_path / "run",
        do_train="true",
        num_train_steps=2,
        num_warmup_steps=1,
        train_batch_size=2,
        jit_compile="true",
        **sizes,
    )
    assert training[0] == "warm-up: 1 of 2 steps"
    assert re.match(r"[\d,]+ parameters; ", training[1])
    assert any(line.startswith("training: 2 of 2 steps") for line in training)
    of_tensorflow = re.compile(
        r"[IWEF]\d{4} |WARNING: |To enable the following instructions"
    )
    assert not list(filter(of_tensorflow.match, [*creation, *training]))
