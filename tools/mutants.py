"""Changes the product in one place at a time, and lists the tests that notice it.

    python -m tools.mutants measure --output_dir=DIR    the tests that run each line
    python -m tools.mutants check --output_dir=DIR      60 changes, at most three hours

`measure` runs the fast and the medium tests with the package `coverage`, and also
measures the programs that they start. It prints the share of the lines of `--all` that
the fast tests run. `check` draws places from all packages: an operator, a constant or
a line. For each, it runs the tests that run the line, first the fast ones, until one
fails. An interrupted `check` resumes. A change that nobody can observe is replaced by
the next draw: add a line `PLACE<tab>reason` to DIR/unobservable.txt, and run `check`
again.
"""

import argparse
import ast
import collections
import concurrent.futures
import copy
import dataclasses
import json
import os
import pathlib
import queue
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import coverage

ROOT = pathlib.Path(__file__).parent.parent
_PRODUCT = ("bert_tf", "data_prep", "run_scripts")
_COMPARISONS: dict[type, type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_ARITHMETIC: dict[type, type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
# A test that hangs counts as a failure, after this time and three times the seconds
# that the tests took in `measure`.
_TIMEOUT_SECS = 300


@dataclasses.dataclass(frozen=True, slots=True)
class Mutant:
    """A change of one place.

    Attributes:
        path: The file, relative to the root.
        line: The number of the line.
        before: The code of the place.
        after: The code that replaces it.
        source: The source of the changed module.
    """

    path: str
    line: int
    before: str
    after: str
    source: str

    @property
    def place(self) -> str:
        """The name of the change in files of results."""
        return f"{self.path}:{self.line} {self.before} -> {self.after}"


def mutants(path: str, source: str) -> Iterator[Mutant]:
    """Yields all changes of a module."""
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        for changed in _changes_of(node):
            assert isinstance(node, ast.stmt | ast.expr)
            text = _replaced(source, node, ast.unparse(changed))
            yield Mutant(path, node.lineno, _line(node), _line(changed), text)

        # In Python 3.11, the nodes inside of an f-string have wrong places.
        if not isinstance(node, ast.JoinedStr):
            for name, value in ast.iter_fields(node):
                if name not in ("annotation", "returns", "decorator_list", "bases"):
                    children = value if isinstance(value, list) else [value]
                    waiting += [each for each in children if isinstance(each, ast.AST)]


def _changes_of(node: ast.AST) -> Iterator[ast.AST]:
    """Yields replacements of a node: an operator, a constant or a line."""
    match node:
        case ast.Compare() if type(node.ops[0]) in _COMPARISONS:
            ops = [_COMPARISONS[type(node.ops[0])](), *node.ops[1:]]
            yield _changed(node, ops=ops)
        case ast.BinOp() if type(node.op) in _ARITHMETIC:
            if not _is_text(node.left) and not _is_text(node.right):
                yield _changed(node, op=_ARITHMETIC[type(node.op)]())
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield _changed(node, op=other)
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.Constant(value=bool()):
            yield _changed(node, value=not node.value)
        case ast.Constant(value=int() | float() as value):
            yield _changed(node, value=value + 1)
        case ast.Expr() if not isinstance(node.value, (ast.Constant, ast.Yield)):
            yield ast.copy_location(ast.Pass(), node)
        case (
            ast.Assign() | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break()
        ):
            yield ast.copy_location(ast.Pass(), node)
        case ast.Return(value=ast.AST()) if ast.unparse(node) != "return None":
            yield _changed(node, value=ast.Constant(None))


def _is_text(node: ast.AST) -> bool:
    is_constant = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_constant or isinstance(node, ast.JoinedStr)


def _changed(node: ast.AST, **fields: object) -> ast.AST:
    result = copy.copy(node)
    for name, value in fields.items():
        setattr(result, name, value)
    return result


def _line(node: ast.AST) -> str:
    """Returns the code of a node in one line, shortened."""
    return " ".join(ast.unparse(node).split())[:100]


def _replaced(source: str, node: ast.stmt | ast.expr, code: str) -> str:
    """Returns the source of a module with other code in the place of a node."""
    assert node.end_lineno is not None
    lines = source.encode().splitlines(keepends=True)
    first, last = node.lineno - 1, node.end_lineno - 1
    before = b"".join(lines[:first]) + lines[first][: node.col_offset]
    after = lines[last][node.end_col_offset :] + b"".join(lines[last + 1 :])
    text = f"({code})" if isinstance(node, ast.expr) else code
    return (before + text.encode() + after).decode()


# Coverage of tests, and of the programs that they start.

# Each process with this module on its path measures itself, for the test whose name is
# in a file. The children of a process that forks do so too.
_SITE = """
import os, sys
if "MUTANTS_DIR" in os.environ:
    import atexit, warnings
    import coverage
    warnings.filterwarnings("ignore", category=coverage.exceptions.CoverageWarning)
    FOLDER, PLACES = os.environ["MUTANTS_DIR"], os.environ["MUTANTS_PLACES"]
    current = None

    def test():
        try:
            with open(os.environ["MUTANTS_TEST"]) as file:
                return file.read()
        except (KeyError, OSError):
            return ""

    def start():
        global current
        current = coverage.Coverage(
            os.path.join(FOLDER, "data"), data_suffix=f"{os.getpid()}-{os.urandom(4).hex()}",
            config_file=False, include=PLACES.split(os.pathsep),
        )
        current.start()
        current.switch_context(test())

    def save():
        global current
        if current is not None:
            current.stop()
            current.save()
            current = None

    def after_fork():
        global current
        if current is not None:
            current.stop()
            current = None
            start()

    leave = os._exit

    def leave_measured(code):
        save()
        leave(code)

    start()
    atexit.register(save)
    os._exit = leave_measured
    os.register_at_fork(after_in_child=after_fork)
"""
# The plugin of pytest that names the test.
_PLUGIN = """
import os
import pytest, sitecustomize

name = os.path.join(os.environ["MUTANTS_DIR"], f"test-{os.getpid()}")
os.environ["MUTANTS_TEST"] = name

@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    with open(name, "w") as file:
        file.write(item.nodeid)
    with open(name + ".fixtures", "a") as file:
        definitions = item._fixtureinfo.name2fixturedefs.items()
        shared = [key for key, each in definitions if each[-1].scope == "session"]
        print(item.nodeid, *shared, sep="\\t", file=file)
    if sitecustomize.current:
        sitecustomize.current.switch_context(item.nodeid)
    try:
        return (yield)
    finally:
        if sitecustomize.current:
            sitecustomize.current.switch_context("")

def pytest_runtest_logreport(report):
    if "PYTEST_XDIST_WORKER" not in os.environ and report.when == "call":
        from conftest import tier_of
        with open(os.path.join(os.environ["MUTANTS_DIR"], "tests.txt"), "a") as file:
            print(tier_of(report.keywords), report.duration, report.nodeid, sep="\\t", file=file)
"""


def measure(folder: pathlib.Path, paths: Sequence[str]) -> None:
    """Runs the tests of `--all` with coverage; prints the share of the fast ones."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "sitecustomize.py").write_text(_SITE)
    (folder / "mutants_plugin.py").write_text(_PLUGIN)
    environment = {
        **os.environ,
        "MUTANTS_DIR": str(folder),
        "MUTANTS_PLACES": os.pathsep.join(f"{ROOT}/{name}/*" for name in _PRODUCT),
        "PYTHONPATH": str(folder),
    }
    pytest = [sys.executable, "-m", "pytest", "-p", "mutants_plugin"]
    options = ["-n", "2", "--dist", "worksteal", "--all", "-q", *paths]
    subprocess.run([*pytest, *options], cwd=ROOT, env=environment, check=False)

    combined = coverage.Coverage(folder / "combined", config_file=False)
    combined.combine([str(path) for path in folder.glob("data.*")])
    combined.save()
    print_shares(folder)


def tests_of_lines(folder: pathlib.Path) -> dict[str, dict[int, set[str]]]:
    """Returns the tests that run each line, by file and line."""
    data = coverage.CoverageData(str(folder / "combined"))
    data.read()
    result = {}
    for path in data.measured_files():
        lines = data.contexts_by_lineno(path)
        name = str(pathlib.Path(path).relative_to(ROOT))
        tests = {line: {*names} - {""} for line, names in lines.items()}

        # Lines outside of functions run once, in the first test that imports the
        # module. All tests of the module depend on them.
        inside = _lines_of_functions((ROOT / name).read_text("utf-8"))
        of_functions = [tests[line] for line in tests.keys() & inside]
        all_tests = set().union(*(of_functions or tests.values()))
        outside = dict.fromkeys(tests.keys() - inside, all_tests)
        result[name] = {**tests, **outside}
    return result


def _lines_of_functions(source: str) -> set[int]:
    """Returns the numbers of the lines in bodies of functions."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines.update(range(node.body[0].lineno, (node.end_lineno or 0) + 1))
    return lines


def tiers_of_tests(folder: pathlib.Path) -> dict[str, tuple[str, float]]:
    """Returns tier and seconds of each test."""
    rows = [line.split("\t") for line in (folder / "tests.txt").open()]
    return {name.strip(): (tier, float(secs)) for tier, secs, name in rows}


def users_of_fixtures(folder: pathlib.Path) -> dict[str, set[str]]:
    """Returns the tests that use each fixture of a session."""
    result = collections.defaultdict(set)
    for path in folder.glob("test-*.fixtures"):
        for line in path.read_text("utf-8").splitlines():
            test, *names = line.split("\t")
            for name in names:
                result[name].add(test)
    # These do not run the product.
    return {
        name: tests
        for name, tests in result.items()
        if name not in ("tmp_path_factory", "test_data", "worker_id", "testrun_uid")
    }


def package_of(path: str) -> str:
    """Returns the folder of a file, at most two levels deep."""
    return "/".join(pathlib.PurePath(path).parts[:-1][:2])


def print_shares(folder: pathlib.Path) -> None:
    """Prints by package which share of the lines of `--all` the fast tests run."""
    tiers = tiers_of_tests(folder)
    run: collections.Counter[str] = collections.Counter()
    fast: collections.Counter[str] = collections.Counter()
    for path, lines in tests_of_lines(folder).items():
        for tests in lines.values():
            for name in (package_of(path), "all"):
                run[name] += 1
                # Lines without a test run while the tests are collected.
                fast[name] += not tests or any(
                    tiers.get(test, ("",))[0] == "fast" for test in tests
                )
    for name, number in sorted(run.items()):
        print(f"{fast[name] / number:7.1%} of {number:6,} lines  {name}")


# The changes.


def drawn(tested: dict[str, dict[int, set[str]]], seed: int) -> Iterator[Mutant]:
    """Yields changes of lines that a test runs: one of each package, in turns."""
    rng = random.Random(seed)
    by_package = collections.defaultdict(list)
    for path in sorted(tested):
        source = (ROOT / path).read_text("utf-8")
        for mutant in mutants(path, source):
            if tested[path].get(mutant.line):
                by_package[package_of(path)].append(mutant)

    names = sorted(by_package)
    for name in names:
        rng.shuffle(by_package[name])
    while any(by_package.values()):
        rng.shuffle(names)
        for name in names:
            if by_package[name]:
                yield by_package[name].pop()


def check(folder: pathlib.Path, seed: int, number: int) -> None:
    """Checks changes, two at a time; prints the results and keeps them in a file."""
    unobservable = folder / "unobservable.txt"
    text = unobservable.read_text("utf-8") if unobservable.exists() else ""
    replaced = dict(line.split("\t", 1) for line in text.splitlines())
    tests, tiers = tests_of_lines(folder), tiers_of_tests(folder)
    chosen: list[Mutant] = []
    for mutant in drawn(tests, seed):
        if mutant.place in replaced:
            print(f"replaced      {mutant.place}: {replaced[mutant.place]}")
        else:
            chosen.append(mutant)
        if len(chosen) == number:
            break

    results = folder / f"results-{seed}.jsonl"
    lines = results.read_text("utf-8").splitlines() if results.exists() else []
    rows = {row["place"]: row for row in map(json.loads, lines)}
    shared = users_of_fixtures(folder)
    copies: queue.Queue[pathlib.Path] = queue.Queue()
    for each in ("first", "second"):
        copies.put(_copy_of_project(folder / each))

    def result(mutant: Mutant) -> dict[str, Any]:
        if mutant.place in rows:
            return rows[mutant.place]
        place = copies.get()
        try:
            names = tests[mutant.path][mutant.line]
            ordered = _in_order(names, tiers, shared)
            row = _check_one(mutant, ordered, tiers, place)
        finally:
            copies.put(place)
        with results.open("a", encoding="utf-8") as file:
            print(json.dumps(row), file=file, flush=True)
        return row

    noticed: collections.Counter[str] = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for row in pool.map(result, chosen):
            tier = row["tier"] or "NOT NOTICED"
            print(f"{tier:12} {row['secs']:5.0f} s  {row['place']}  {row['test']}")
            noticed[tier] += 1
    print(f"The fast tests notice {noticed['fast']} of {len(chosen)} changes,")
    print(f"and those of --all notice {noticed['fast'] + noticed['medium']}.")


def _in_order(
    names: set[str], tiers: dict[str, tuple[str, float]], shared: dict[str, set[str]]
) -> dict[str, list[str]]:
    """Returns the tests of each tier, the fastest first.

    The tests that run a line are followed by those that may share with one of them
    what was made once: the others of its file, and of its fixtures.
    """
    files = {name.split("::")[0] for name in names}
    others = {name for name in tiers if name.split("::")[0] in files}
    others = others.union(*(users for users in shared.values() if users & names))
    return {
        tier: sorted(
            (name for name in others | names if tiers.get(name, ("",))[0] == tier),
            key=lambda name: (name not in names, tiers[name][1]),
        )
        for tier in ("fast", "medium")
    }


def _copy_of_project(folder: pathlib.Path) -> pathlib.Path:
    """Copies the files that git knows, in the layout of the installed package."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True).stdout
    for name in names.decode().split("\0"):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    # Else these two packages would be those of the environment.
    for name in _PRODUCT[1:]:
        (folder / "bert_tf" / name).symlink_to(folder / name)
    return folder


def _check_one(
    mutant: Mutant,
    tests: dict[str, list[str]],
    tiers: dict[str, tuple[str, float]],
    folder: pathlib.Path,
) -> dict[str, Any]:
    """Runs tests until one fails in a copy of the project with the change."""
    start = time.monotonic()
    changed = folder / mutant.path
    original = changed.read_text("utf-8")
    changed.write_text(mutant.source, "utf-8")
    row = {"place": mutant.place, "tier": "", "test": ""}
    try:
        for tier, names in tests.items():
            timeout = _TIMEOUT_SECS + 3 * sum(tiers[name][1] for name in names)
            failed = _first_failure(names, folder, timeout) if names else ""
            if failed:
                row |= {"tier": tier, "test": failed}
                break
    finally:
        changed.write_text(original, "utf-8")
    return {**row, "secs": time.monotonic() - start}


def _first_failure(names: list[str], folder: pathlib.Path, timeout: float) -> str:
    """Returns the first of the tests that fails, or "" if all pass."""
    (folder / "names.txt").write_text("".join(f"{name}\n" for name in names))
    options = ["-x", "-q", "-p", "no:cacheprovider"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, "--slow", "@names.txt"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        return "a test that does not end"
    if done.returncode in (0, 5):
        return ""
    lines = [
        line
        for line in done.stdout.splitlines()
        if line.startswith(("FAILED", "ERROR"))
    ]
    return lines[0] if lines else f"pytest ended with code {done.returncode}"


def main() -> None:
    """Reads the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("measure", "check"))
    parser.add_argument("--output_dir", type=pathlib.Path, required=True)
    parser.add_argument("--paths", nargs="*", default=[], help="only these tests")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--changes", type=int, default=60)
    given = parser.parse_args()
    folder = given.output_dir.resolve()
    if given.action == "measure":
        measure(folder, given.paths)
    else:
        check(folder, given.seed, given.changes)


if __name__ == "__main__":
    main()
