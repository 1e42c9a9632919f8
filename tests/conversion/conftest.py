"""The checkpoints of other libraries, and a hub without a network."""

import sys
import types

import pytest


@pytest.fixture(scope="session")
def foreign(test_data):
    """A folder of the test data, which states how the checkpoints were written."""
    folder = test_data / "golden/foreign_checkpoints"
    if not folder.exists():
        pytest.skip("requires golden/foreign_checkpoints in BERT_TF_TEST_DATA")
    return folder


@pytest.fixture
def replace_download(monkeypatch):
    """A function that replaces `snapshot_download` of huggingface_hub."""

    def replace(download):
        client = types.SimpleNamespace(snapshot_download=download)
        monkeypatch.setitem(sys.modules, "huggingface_hub", client)

    return replace
