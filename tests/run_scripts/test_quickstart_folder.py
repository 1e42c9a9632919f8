"""quickstart.py replaces no files of others."""

import pathlib

import pytest
from absl.testing import flagsaver

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


def test_a_quickstart_killed_before_its_first_state_file_continues(tmp_path, monkeypatch):
    def kill(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(quickstart, "run_stage", kill)
    quickstart.FLAGS.mark_as_parsed()
    with flagsaver.flagsaver(output_dir=str(tmp_path)):
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                quickstart.main()


@pytest.mark.parametrize("content", ["", '{"key":', "[1]", '{"key": "a", "secs": "1", "done": 1}'])
def test_a_damaged_state_file_is_named(tmp_path, content):
    stage = next(iter(quickstart.data_stages(quickstart.SMOKE, str(tmp_path))))
    path = pathlib.Path(quickstart.state_file(str(tmp_path), stage))
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(InputError, match=f"^{path}"):
        quickstart.run_stage(stage, "key", str(tmp_path))
