"""The stored character tables equal the output of tools/make_unicode_tables.py."""

import unicodedata

import numpy as np
import pytest

from bert_tf.tokenization import unicode_tables
from tools import make_unicode_tables


@pytest.mark.medium
@pytest.mark.skipif(
    unicodedata.unidata_version != make_unicode_tables.UNICODE_VERSION,
    reason="the generator needs a Python with Unicode 14.0",
)
def test_the_stored_tables_equal_generated_ones():
    generated, stored = make_unicode_tables.make_tables(), unicode_tables.load()
    assert generated.keys() == stored.keys()
    for name, array in generated.items():
        assert array.dtype == stored[name].dtype
        np.testing.assert_array_equal(array, stored[name], name)


def test_another_unicode_version_is_refused(monkeypatch):
    monkeypatch.setattr(unicodedata, "unidata_version", "15.1.0")
    with pytest.raises(
        SystemExit, match=r"need Unicode 14\.0\.0, but .* has Unicode 15\.1\.0"
    ):
        make_unicode_tables.main()
