"""conftest.py: the tiers of the tests, and what a run prints at its end."""

import pathlib
import re

import pytest

pytest_plugins = ["pytester"]
CASES = """
import time
import pytest

def test_fast():
    pass

@pytest.mark.medium
def test_medium():
    pass

@pytest.mark.parametrize(
    "number", [pytest.param(1, marks=[pytest.mark.medium, pytest.mark.slow]), 2]
)
def test_slow(number):
    pass

def test_package():
    pytest.importorskip('no_such_package')
"""


@pytest.fixture
def project(pytester):
    """A project with the conftest.py of these tests."""
    conftest = pathlib.Path(__file__).parent / "conftest.py"
    pytester.makeconftest(conftest.read_text("utf-8"))
    # The import of hypothesis takes longer than the cases.
    pytester.makeini("""
        [pytest]
        testpaths = tests
        addopts = -p no:hypothesispytest
        markers =
            medium: 3 s
            slow: more
    """)
    pytester.mkdir("tests").joinpath("test_cases.py").write_text(CASES)
    return pytester


FAST = "test_fast test_slow[2]"
MEDIUM = f"{FAST} test_medium"
SLOW = f"{MEDIUM} test_slow[1]"


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ("", FAST),
        ("--all", MEDIUM),
        ("--slow", SLOW),
        # Folders, files and cases that are named.
        ("tests", MEDIUM),
        ("tests/test_cases.py", SLOW),
        ("tests/test_cases.py::test_medium", "test_medium"),
        ("--all tests/test_cases.py", MEDIUM),
        pytest.param("-n 2 --all", MEDIUM, marks=pytest.mark.medium),
    ],
)
def test_the_cases_of_a_tier_run(project, arguments, names):
    output = project.runpytest("-v", *arguments.split()).stdout.str()
    passed = re.findall(r"PASSED \S+::(\S+)|::(\S+) PASSED", output)
    assert sorted(one or other for one, other in passed) == sorted(names.split())


def test_the_summary_names_folders_slower_cases_and_commands(project, monkeypatch):
    project.path.joinpath("tests/test_time.py").write_text(
        "import pytest, time\n"
        "def test_long(): time.sleep(0.3)\n"
        "@pytest.mark.medium\n"
        "def test_longer(): time.sleep(0.3)\n"
        "def test_short(): time.sleep(0.15)\n"
    )
    conftest = project.path / "conftest.py"
    conftest.write_text(conftest.read_text().replace('"fast": 4', '"fast": 0.1'))
    result = project.runpytest("--all")
    result.assert_outcomes(passed=6, skipped=2)  # a slow case is not a failure
    result.stdout.re_match_lines_random(
        [
            r" +0\.\d +7  tests",
            r"no longer fast: tests/test_time.py::test_long took 0\.3 s",
            r" +1  slow: takes too long: test\.sh --slow",
            r" +1  could not import 'no_such_package': test\.sh --all",
        ]
    )
    for name in ("test_longer", "test_short"):
        result.stdout.no_fnmatch_line(f"no longer *{name} *")
