"""Options, tiers and fixtures for all tests.

Each case belongs to a tier, by the time that it takes on the two cores of an EPYC:
`medium` and `slow` are markers, and a case without a marker is fast. `pytest` runs the
fast cases, `pytest --all` also the medium ones, `pytest --slow` all. Files and cases
that are named run in every tier, and folders that are named without the slow cases.
"""

import collections
import ctypes
import gc
import os
import pathlib
import re
import signal
import sys

import pytest

# A shell lets programs that it starts in the background ignore SIGINT, and so do their
# children.
signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # as all programs do

# The tiers, and the seconds that a case of each may take. A fast case may take longer
# if no other one runs a program or a format from its start to its end.
TIERS = {"fast": 4, "medium": 15, "slow": float("inf")}
OPTIONS = {"medium": "--all", "slow": "--slow"}
# The commands that run skipped tests, by the reasons of the skips.
COMMANDS = {
    r"^medium:|could not import|\bJAX\b|KERAS_BACKEND|extra": "test.sh --all",
    r"^slow:|real weights|BERT_TF_OLD": "test.sh --slow",
    r"BERT_TF_TEST_DATA": "BERT_TF_TEST_DATA=folder test.sh",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    for tier, option in OPTIONS.items():
        parser.addoption(
            option,
            dest="tier",
            action="store_const",
            const=tier,
            help=f"also run the {tier} tests, and those of faster tiers",
        )


def pytest_configure(config: pytest.Config) -> None:
    """Chooses the tier; the processes of pytest-xdist receive it as an option."""
    if config.option.tier is not None:
        return
    named = config.args_source is pytest.Config.ArgsSource.ARGS
    if not named:
        config.option.tier = "fast"
    elif any(os.path.isdir(argument) for argument in config.args):
        config.option.tier = "medium"
    else:
        config.option.tier = "slow"


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    tiers = list(TIERS)
    selected = tiers.index(config.option.tier)
    for item in items:
        tier = tier_of(marker.name for marker in item.iter_markers())
        if tiers.index(tier) > selected:
            item.add_marker(pytest.mark.skip(reason=f"{tier}: takes too long"))

    # The longest test starts first, so that it does not run alone after all other
    # tests.
    items.sort(
        key=lambda item: item.name != "test_twenty_kills_do_not_change_the_result"
    )


def pytest_collection_finish() -> None:
    """Keeps the garbage collector from visiting all objects of the imported modules.

    Else these visits take a twentieth of the time of the tests.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def tier_of(names) -> str:
    """Returns the slowest tier among names of markers."""
    return max({"fast", *names} & TIERS.keys(), key=list(TIERS).index)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the times of folders, cases that became slow, and reasons of skips."""
    reports = [
        report
        for name in ("passed", "failed", "skipped", "error", "")
        for report in terminalreporter.stats.get(name, [])
        if isinstance(report, pytest.TestReport)
    ]
    write = terminalreporter.write_line

    # The sums by folder.
    secs, cases = collections.Counter(), collections.Counter()
    for report in reports:
        folder = str(pathlib.PurePath(report.nodeid.split("::")[0]).parent)
        secs[folder] += report.duration
        cases[folder] += report.when == "call"
    terminalreporter.section("seconds and cases by folder")
    for folder, value in secs.most_common():
        write(f"{value:8.1f} {cases[folder]:5}  {folder}")

    # The cases that take twice as long as their tier allows.
    for report in reports:
        tier = tier_of(report.keywords)
        if report.when == "call" and report.duration > 2 * TIERS[tier]:
            write(f"no longer {tier}: {report.nodeid} took {report.duration:.1f} s")

    # The reasons of skips.
    reasons = collections.Counter(
        re.sub(r"^Skipped: |: No module named.*", "", report.longrepr[2])
        for report in reports
        if report.skipped and isinstance(report.longrepr, tuple)
    )
    if reasons:
        terminalreporter.section("skipped tests, and the commands that run them")
    for reason, number in reasons.most_common():
        known = (COMMANDS[each] for each in COMMANDS if re.search(each, reason))
        command = next(known, "")
        write(f"{number:5}  {reason}{command and f': {command}'}")


class SignalStack(ctypes.Structure):
    """The structure `stack_t` of Linux."""

    _fields_ = (
        ("ss_sp", ctypes.c_void_p),
        ("ss_flags", ctypes.c_int),
        ("ss_size", ctypes.c_size_t),
    )


@pytest.fixture(autouse=True)
def _signals_use_the_normal_stack():
    """OpenVINO sets a stack for signal handlers and frees it: a later signal would crash."""
    if sys.platform == "linux":
        disabled = SignalStack(ss_flags=2)
        assert ctypes.CDLL(None).sigaltstack(ctypes.byref(disabled), None) == 0


@pytest.fixture(scope="session")
def test_data() -> pathlib.Path:
    """The folder that BERT_TF_TEST_DATA names.

    Its subfolder data/ has real text and data sets.
    """
    folder = os.environ.get("BERT_TF_TEST_DATA")
    if not folder:
        pytest.skip(
            "requires real data: set BERT_TF_TEST_DATA to the folder with data/"
        )
    return pathlib.Path(folder).resolve()
