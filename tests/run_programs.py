"""Runs each program in its own process; the processes share the slow imports."""

import dataclasses
import json
import pathlib
import subprocess
import sys

_DRIVER = """
import gc, importlib, json, os, signal, sys, tempfile, time
# Every program needs these modules. The programs define the same flags, so each child process
# imports its own program.
for name in ("tensorflow_text", "bert_tf.export.saved_model", "bert_tf.export.predictor",
             "bert_tf.pretraining.pretrain", "bert_tf.tasks.fine_tuning", "bert_tf.conversion",
             "bert_tf.feature_extraction"):
    importlib.import_module(name)


def run(module, argv, stdin):
    os.dup2(os.open(stdin, os.O_RDONLY), 0) if stdin else os.close(0)
    main = importlib.import_module(module)
    sys.argv = [main.__file__, *argv]
    main.run()


def wait(child, secs):
    end = time.monotonic() + secs
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


# Without this, each child process spends a second to free the objects of the imported modules.
gc.freeze()
request = json.load(sys.stdin)
for module, argv in request["commands"]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            os.dup2(out.fileno(), 1), os.dup2(err.fileno(), 2)
            run(module, argv, request["stdin"])
            os._exit(0)
        code = wait(child, request["secs"])
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="backslashreplace"))
    print("RESULT " + json.dumps([code, *texts]), flush=True)
"""


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of a program; `code` is None if the program did not end in time."""

    code: int | None
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


def run_mains(
    commands: list[tuple[str, list[str]]],
    cwd: str | pathlib.Path | None = None,
    stdin: str | pathlib.Path | None = "/dev/null",
    secs: float = 300,
) -> list[Result]:
    """Runs the program `module` with `flags` for each pair (module, flags), in order.

    Args:
        commands: The pairs. A byte of a flag that is not UTF-8 is a surrogate, as in `sys.argv`.
        cwd: The working directory of the programs.
        stdin: The file that the programs read as stdin; None closes stdin.
        secs: A program is killed after this time.
    """
    request = {"commands": commands, "stdin": str(stdin) if stdin else None, "secs": secs}
    process = subprocess.run(
        [sys.executable, "-c", _DRIVER],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=900,
        check=True,
        cwd=cwd,
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
