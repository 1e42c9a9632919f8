"""The quickstart's choice of the number of pretraining steps."""

import json

import pytest

from bert_tf.run_scripts import quickstart


@pytest.mark.parametrize("steps_per_sec, steps", [(1e-3, 600), (4, 1080), (9.4, 2520), (1e6, 3600)])
def test_number_of_steps(steps_per_sec, steps):
    assert quickstart.FULL.limits.choose_steps(steps_per_sec) == steps


def test_resumed_quickstart_uses_the_stored_number(tmp_path, monkeypatch, capsys):
    runs = []

    def run_command(words):
        """Writes the log of a measurement, with an evaluation, as the training loop does."""
        runs.append(words)
        # The first steps are slow; the others take 0.2 s, in the second run half of this.
        lines = [
            {"kind": "train", "step": step, "examples_per_sec": rate}
            for step, rate in ((20, 64 / 9), (40, 320 * len(runs)))
        ]
        (tmp_path / "speed").mkdir()
        (tmp_path / "speed/metrics.jsonl").write_text(
            "".join(json.dumps(line) + "\n" for line in [*lines, {"kind": "eval", "step": 40}])
        )

    monkeypatch.setattr(quickstart, "run_command", run_command)

    def steps(size=quickstart.FULL):
        return quickstart.pretraining_steps(quickstart.Stages(str(tmp_path), size))

    assert steps() == 1320  # 5 steps/s for 0.45 * 600 s, a multiple of 60
    assert not (tmp_path / "speed").exists()
    err = capsys.readouterr().err
    assert "1,320 pretraining steps (at most 3,600), because this machine runs 5.0 steps/s" in err
    assert "takes about 10 minutes" in err
    assert steps() == 1320 and len(runs) == 1
    # With other data, the speed is measured again: 10 steps/s for 0.2 * 120 s.
    assert steps(quickstart.SMOKE) == 240 and len(runs) == 2
