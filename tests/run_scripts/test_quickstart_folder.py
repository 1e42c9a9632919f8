"""quickstart.py replaces no files of others."""

import pytest

from bert_tf.errors import InputError
from bert_tf.run_scripts import quickstart


@pytest.mark.parametrize(
    "name", ["bert_config.json", "vocab.txt", "records/mine", "pretraining_steps.json"]
)
def test_a_folder_with_other_files_is_refused(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    with pytest.raises(InputError, match="would be replaced, but no quickstart has written it"):
        quickstart.check_output_dir(str(tmp_path), quickstart.SMOKE)
    assert path.read_text() == "mine" and not (tmp_path / "stages").exists()


def test_a_quickstart_continues_in_its_folder(tmp_path):
    stage = next(iter(quickstart.data_stages(quickstart.SMOKE, str(tmp_path))))
    (tmp_path / "stages").mkdir()
    (tmp_path / "bert_config.json").write_text("{}")
    (tmp_path / "vocab.txt").write_text("[PAD]\n")
    with pytest.raises(InputError, match="no quickstart has written it"):
        quickstart.check_output_dir(str(tmp_path), quickstart.SMOKE)
    open(quickstart.state_file(str(tmp_path), stage), "w").close()
    quickstart.check_output_dir(str(tmp_path), quickstart.SMOKE)
