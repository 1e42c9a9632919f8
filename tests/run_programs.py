"""Runs each program in its own process; the processes share the slow imports."""

import dataclasses
import json
import subprocess
import sys

_DRIVER = """
import importlib, json, os, sys, tempfile
# Every program needs these modules. The programs define the same flags, so each child process
# imports its own program.
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
    def messages(self) -> list[str]:
        """The lines that the program wrote to stderr, without TensorFlow's log lines."""
        lines = [line for line in self.err.splitlines() if line]
        return [line for line in lines if line[:1] not in "IWE" or line[1:2] not in "0123456789"]


def run_main(module: str, *commands: list[str]) -> list[Result]:
    """Runs one program once for each list of flags."""
    return run_mains([(module, command) for command in commands])


def run_mains(commands: list[tuple[str, list[str]]]) -> list[Result]:
    """Runs the program `module` with `flags` for each pair (module, flags), in order."""
    process = subprocess.run(
        [sys.executable, "-c", _DRIVER],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    lines = [line for line in process.stdout.splitlines() if line.startswith("RESULT ")]
    return [Result(*json.loads(line.removeprefix("RESULT "))) for line in lines]


def assert_refused(result: Result, *words: str) -> None:
    """Asserts exit code 2 and one error line on stderr that contains all `words`."""
    assert result.code == 2, result
    assert len(result.messages) == 1, result.messages
    assert result.messages[0].startswith("error: "), result.messages
    for word in words:
        assert word in result.messages[0], result.messages
