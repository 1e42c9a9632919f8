"""quickstart.py replaces no files of others, and continues in its own folder."""

import itertools
import os
import pathlib
import types
from unittest import mock

from absl.testing import flagsaver
from json_files import read_json
from refusals import refused

from bert_tf.quickstart import stages
from bert_tf.run_scripts import quickstart


def test_a_folder_with_other_files_is_refused(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("mine")
    quickstart.FLAGS.mark_as_parsed()
    with (
        flagsaver.flagsaver(output_dir=str(tmp_path)),
        refused(r"would be replaced, but .* contains no quickstart"),
    ):
        quickstart.main()
    assert path.read_text() == "mine" and not (tmp_path / "stages").exists()


def test_a_quickstart_continues_in_its_folder(tmp_path, monkeypatch):
    """The first stage is interrupted; then it runs; then it is complete."""
    runs = []

    def run_command(words):
        runs.append(words)
        state = read_json(tmp_path / "stages/sample_data.json")
        assert not state["done"]
        if len(runs) == 1:
            raise KeyboardInterrupt
        (tmp_path / "sample").mkdir()

    monkeypatch.setattr(stages, "run_command", run_command)
    clock = types.SimpleNamespace(monotonic=itertools.count().__next__)
    monkeypatch.setattr(stages, "time", clock)
    for expected in (1, 2, 2):
        quickstart.check_output_dir(str(tmp_path))
        of_folder = stages.Stages(".", str(tmp_path), stages.SMOKE)
        try:
            of_folder.run("sample data", "sample", stages.SAMPLE_DATA)
        except KeyboardInterrupt:
            assert not runs[1:]
        assert len(runs) == expected
    assert of_folder.secs == {"sample data": 2}


def test_each_stage_runs_programs_of_this_project(tmp_path, monkeypatch):
    programs = []

    def run_command(words):
        programs.append(pathlib.Path(words[0]))
        for name in {*quickstart.RESULTS} - {"bert_config.json"}:
            (tmp_path / name).mkdir(exist_ok=True)

    monkeypatch.setattr(stages, "run_command", run_command)
    monkeypatch.setattr(quickstart, "format_report", lambda folder, secs: [*secs])
    quickstart.FLAGS.mark_as_parsed()
    with flagsaver.flagsaver(output_dir=str(tmp_path)), mock.patch.dict(os.environ):
        quickstart.main()
    assert len(programs) == 8 and all(path.is_file() for path in programs)
