"""Runs a main many times, each time in a process of its own, importing it only once."""

import dataclasses
import json
import subprocess
import sys

_DRIVER = """
import importlib, json, os, sys, tempfile
# What every main needs; the mains themselves define the same flags, so each child imports its own.
for name in ("tensorflow_text", "bert_tf.export.saved_model", "bert_tf.pretraining.pretrain",
             "bert_tf.tasks.fine_tuning", "bert_tf.conversion"):
    importlib.import_module(name)
for module, argv in json.load(sys.stdin):
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), 1), os.dup2(err.fileno(), 2)
            main = importlib.import_module(module)
            sys.argv = [main.__file__, *argv]
            main.run()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    print("RESULT " + json.dumps([os.waitstatus_to_exitcode(status), *texts]), flush=True)
"""


@dataclasses.dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def said(self) -> list[str]:
        """What the main itself wrote to stderr: TensorFlow's own lines left out."""
        lines = [line for line in self.err.splitlines() if line]
        return [line for line in lines if line[:1] not in "IWE" or line[1:2] not in "0123456789"]


def run_main(module: str, *commands: list[str]) -> list[Result]:
    return run_mains([(module, command) for command in commands])


def run_mains(commands: list[tuple[str, list[str]]]) -> list[Result]:
    done = subprocess.run(
        [sys.executable, "-c", _DRIVER],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    return [Result(*json.loads(line.removeprefix("RESULT "))) for line in lines]


def assert_refused(result: Result, *words: str) -> None:
    """One line on stderr with these words, and exit code 2."""
    assert result.code == 2, result
    assert len(result.said) == 1, result.said
    assert result.said[0].startswith("error: "), result.said
    for word in words:
        assert word in result.said[0], result.said
