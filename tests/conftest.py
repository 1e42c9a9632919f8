"""Options and fixtures for all tests."""

import os
import pathlib
import signal

import pytest

# A shell lets programs that it starts in the background ignore SIGINT, and so do their
# children.
signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # as all programs do


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the slow tests")


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    if config.getoption("--slow"):
        # The longest test starts first, so that it does not run alone after all other
        # tests.
        items.sort(
            key=lambda item: item.name != "test_twenty_kills_do_not_change_the_result"
        )
        return
    skip = pytest.mark.skip(reason="slow: run with --slow")
    for item in items:
        if item.get_closest_marker("slow"):  # not a folder named slow
            item.add_marker(skip)


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
