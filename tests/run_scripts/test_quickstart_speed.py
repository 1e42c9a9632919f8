"""The quickstart's choice of the number of pretraining steps."""

import json

import pytest

from bert_tf.run_scripts import quickstart, quickstart_speed
from bert_tf.run_scripts.quickstart_speed import Limits, RemainingWork, choose_steps

LIMITS = Limits(secs=600, min_train_steps=600, max_train_steps=3600)
# 6 evaluations of 120 batches, and 3 epochs of 12,000 passages in batches of 64.
WORK = RemainingWork(evaluation_batches=720, fine_tuning_batches=562.5)


@pytest.mark.parametrize(
    "spent_secs, start_secs, steps_per_sec, steps",
    [
        # 540 planned seconds - 60 - 4 * 8 - (240 + 562.5) / rate, times the rate.
        (60, 8, 15, 3600),  # 5917 fit
        (60, 8, 6, 1860),  # 1885 fit
        (60, 8, 4, 960),  # 989 fit
        (60, 8, 2, 600),  # 93 fit
        (700, 8, 15, 600),  # nothing fits
        (60, 8, 1e-3, 600),
        (60, 8, 1e6, 3600),
    ],
)
def test_number_of_steps(spent_secs, start_secs, steps_per_sec, steps):
    chosen, total = choose_steps(LIMITS, WORK, spent_secs, start_secs, 1 / steps_per_sec)
    assert chosen == steps
    expected = spent_secs + 4 * start_secs + (steps + 240 + 562.5) / steps_per_sec
    assert total == pytest.approx(expected)
    if chosen > LIMITS.min_train_steps:
        assert total <= 0.9 * LIMITS.secs


@pytest.mark.parametrize("size", [quickstart.FULL, quickstart.SMOKE])
def test_limits_allow_even_evaluations_and_exact_warm_up(size):
    for steps in (size.limits.min_train_steps, size.limits.max_train_steps):
        assert steps % 60 == 0
    assert size.limits.min_train_steps < size.limits.max_train_steps


def measured(folder, secs_of_windows, batch_size):
    """Writes the log of a measurement, with an evaluation, as the training loop does."""
    lines = [
        {"kind": "train", "step": step, "examples_per_sec": 10 * batch_size / secs}
        for step, secs in zip((10, 20, 30), secs_of_windows, strict=True)
    ]
    lines.append({"kind": "eval", "step": 30, "loss": 9.0})
    (folder / "speed").mkdir(parents=True)
    (folder / "speed/metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_speed_does_not_include_the_first_steps(tmp_path):
    measured(tmp_path, (50.0, 1.0, 3.0), batch_size=64)
    assert quickstart_speed.secs_per_step(str(tmp_path / "speed"), 64) == pytest.approx(4 / 20)


def test_choice_is_stored_and_the_measurement_is_removed(tmp_path):
    measured(tmp_path, (9.0, 2.0, 2.0), batch_size=64)
    # The program ran for 30 steps of 0.2 s, and 14 s before the first step.
    line = quickstart_speed.store_steps(str(tmp_path), LIMITS, WORK, 64, 60, 20)
    # (540 - 80 - 4 * 14) * 5 - 802.5 = 1217
    assert quickstart_speed.stored_steps(str(tmp_path)) == (1200, pytest.approx(5.0))
    assert line.startswith("1,200 pretraining steps (at most 3,600)")
    assert "5.0 steps/s" in line and "about 9 minutes" in line
    assert not (tmp_path / "speed").exists()


def test_resumed_quickstart_uses_the_stored_number(tmp_path, monkeypatch):
    sample, records = tmp_path / "sample/classification", tmp_path / "records"
    sample.mkdir(parents=True)
    records.mkdir()
    (sample / "train.tsv").write_text("sentence\tlabel\n" + "a\tb\n" * 12000)
    (records / "heldout.stats.json").write_text(json.dumps({"train": {"examples": 7680}}))
    runs = []

    def run_command(words):
        runs.append(words)
        measured(tmp_path, (9.0, 1 / len(runs), 1 / len(runs)), batch_size=64)
        return 0

    monkeypatch.setattr(quickstart, "run_command", run_command)

    def steps(key="key"):
        stages = quickstart.Stages(str(tmp_path), key)
        stages.secs["sample data"] = 350.0
        chosen = quickstart.pretraining_steps(quickstart.FULL, stages)
        assert set(stages.secs) == {"sample data", "speed"}
        return chosen

    first = steps()
    # (540 - 350) * 10 - 802.5 = 1097; the measurement itself took almost no time here.
    assert first == 1080
    assert steps() == first
    assert len(runs) == 1
    # With other data, the speed is measured again: 20 steps/s.
    assert steps("other data") == 2940
    assert len(runs) == 2
