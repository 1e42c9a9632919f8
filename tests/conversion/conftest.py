"""The checkpoints of other libraries."""

import pytest


@pytest.fixture(scope="session")
def foreign(test_data):
    """A folder of the test data, which states how the checkpoints were written."""
    folder = test_data / "golden/foreign_checkpoints"
    if not folder.exists():
        pytest.skip("requires golden/foreign_checkpoints in BERT_TF_TEST_DATA")
    return folder
