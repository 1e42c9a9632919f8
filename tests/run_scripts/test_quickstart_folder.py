"""quickstart.py replaces no files of others."""

import pytest
from absl.testing import flagsaver

from bert_tf.errors import InputError
from bert_tf.run_scripts import quickstart


def test_a_folder_with_other_files_is_refused(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("mine")
    quickstart.FLAGS.mark_as_parsed()
    with (
        flagsaver.flagsaver(output_dir=str(tmp_path)),
        pytest.raises(InputError, match=r"would be replaced, but .* contains no quickstart"),
    ):
        quickstart.main()
    assert path.read_text() == "mine" and not (tmp_path / "stages").exists()
