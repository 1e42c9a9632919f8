"""Runs each program in its own process; the processes share the slow imports."""

import dataclasses
import functools
import json
import os
import pathlib
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any

_DRIVER = """
import atexit, gc, importlib, json, os, signal, sys
import tempfile, threading, time, traceback
# Every program needs these modules. The programs define the same flags, so each child
# process imports its own program.
for name in ("export.saved_model_writing", "export.predictor", "runs.pretrain",
             "runs.fine_tune", "conversion", "feature_extraction.feature_files"):
    importlib.import_module(f"bert_tf.{name}")


def run(module, argv, cwd, stdin):
    os.chdir(cwd)
    os.dup2(os.open(stdin, os.O_RDONLY), 0) if stdin else os.close(0)
    main = importlib.import_module(module)
    sys.argv = [main.__file__, *argv]
    try:
        main.run()
    except SystemExit as stopped:
        return stopped.code
    except BaseException:
        traceback.print_exc()
        return 1


def end(code):
    # As Python does, but without 0.3 seconds that free the objects of the modules.
    if isinstance(code, str):
        print(code, file=sys.stderr)
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush(), sys.stderr.flush()
    os._exit(1 if isinstance(code, str) else code or 0)


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


# Else the garbage collector of each child process visits all objects of the modules.
gc.freeze()
for line in sys.stdin:
    request = json.loads(line)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            os.dup2(out.fileno(), 1), os.dup2(err.fileno(), 2)
            words = [request[name] for name in ("module", "flags", "cwd", "stdin")]
            end(run(*words))
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
        """The lines of the program on stderr, without those of TensorFlow's log."""
        lines = [line for line in self.err.splitlines() if line]
        return [
            line
            for line in lines
            if line[:1] not in "IWE" or line[1:2] not in "0123456789"
        ]


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
        commands: The pairs. A byte of a flag that is not UTF-8 is a surrogate, as in
            `sys.argv`.
        cwd: The working directory of the programs.
        stdin: The file that the programs read as stdin; None closes stdin.
        secs: A program is killed after this time.
    """
    requests, results = _driver(_environment())
    found = []
    for module, flags in commands:
        request = {
            "module": module,
            "flags": flags,
            "secs": secs,
            "cwd": str(cwd or os.getcwd()),
        }
        request["stdin"] = str(stdin) if stdin else None
        requests.write(json.dumps(request) + "\n")
        requests.flush()
        found.append(_read_result(results))
    return found


def run_python(
    *words: object, code: int = 0, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Runs Python in a process of its own, which must end with this exit code."""
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == code, done.stderr
    return done


def as_flags(values: Mapping[str, object]) -> list[str]:
    """Returns flags; leaves out those whose value is None."""
    return [f"--{name}={value}" for name, value in values.items() if value is not None]


def run_lines(module: str, *lines: str) -> list[Result]:
    """Runs a program once for each command line, in the working directory."""
    return run_main(module, *map(shlex.split, lines))


def run_well(module: str, *lines: str) -> list[Result]:
    """Runs a program as `run_lines` does; each command must succeed."""
    results = run_lines(module, *lines)
    for result, line in zip(results, lines, strict=True):
        assert result.code == 0, (line, result)
    return results


def read_lines(path: str | pathlib.Path) -> list[Any]:
    """Reads a file of JSON lines."""
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def newest(folder: str | pathlib.Path, name: str) -> pathlib.Path:
    """Returns the path of a file in the newest checkpoint of a run."""
    return max(pathlib.Path(folder, "checkpoints").glob(f"*/{name}"))


def results_of(
    folder: str | pathlib.Path, name: str = "eval_results.txt"
) -> dict[str, float]:
    """Reads a file of results in the folder of a run."""
    lines = pathlib.Path(folder, name).read_text().splitlines()
    pairs = (line.split(" = ") for line in lines)
    return {name: float(value) for name, value in pairs}


def write_rows(path: str | pathlib.Path, *rows: str) -> None:
    """Writes lines of text."""
    pathlib.Path(path).write_text("".join(f"{row}\n" for row in rows), "utf-8")


def _environment() -> frozenset[tuple[str, str]]:
    """Returns the environment variables, without those that differ between tests.

    pytest sets its own, and the first ONNX file of a process that of ONNX Runtime.
    """
    return frozenset(
        item
        for item in os.environ.items()
        if not item[0].startswith(("PYTEST_", "ORT_"))
    )


@functools.cache
def _driver(environment: frozenset[tuple[str, str]]) -> tuple[IO[str], IO[str]]:
    """Starts a process that runs requests until the end of this process.

    Returns:
        The stdin and the stdout of the process.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", _DRIVER],
        env=dict(environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin and process.stdout
    return process.stdin, process.stdout


def _read_result(results: IO[str]) -> Result:
    for line in results:
        if line.startswith("RESULT "):
            return Result(*json.loads(line.removeprefix("RESULT ")))
    raise RuntimeError("The process that starts the programs has ended.")


def assert_refused(result: Result, *words: str) -> None:
    """Asserts exit code 2 and one error line on stderr that contains all `words`."""
    assert result.code == 2, result
    assert len(result.messages) == 1, result.messages
    assert result.messages[0].startswith("error: "), result.messages
    for word in words:
        assert word in result.messages[0], result.messages


def assert_each_refused(
    module: str, base: str, cases: Sequence[tuple[str, ...]]
) -> None:
    """Asserts that a program refuses each case: flags, and words of the message.

    No case may write the folder `out`, if there is none.

    Args:
        module: The program.
        base: The flags that all cases have.
        cases: Further flags, which replace those of `base`, and the words.
    """
    existed = os.path.exists("out")
    results = run_lines(module, *(f"{base} {flags}" for flags, *_ in cases))
    for result, (_, *words) in zip(results, cases, strict=True):
        assert_refused(result, *words)
    assert os.path.exists("out") == existed
