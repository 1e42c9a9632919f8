"""`bert_tf.pretrain`: the example of docs/python.md, and the equivalent program."""

import pathlib

import pytest
from guide_program import program, write_records
from refusals import refused
from run_programs import as_flags, run_main

import bert_tf

TRAINING = bert_tf.TrainingConfig(num_train_steps=6, num_warmup_steps=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guide")
    write_records(folder)
    return folder


def pretrain(output_dir, **arguments):
    """Calls `pretrain` with the files of the guide, in the present folder."""
    files = {
        "eval_input_file": pathlib.Path("records/eval.tfrecord"),
        "bert_config_file": "tiny",
        "vocab_file": pathlib.Path("vocab.txt"),
        "config": bert_tf.PretrainingConfig(max_eval_steps=10),
        "training": TRAINING,
    }
    return bert_tf.pretrain(
        pathlib.Path("records/train-*.tfrecord"), output_dir, **{**files, **arguments}
    )


@pytest.fixture(scope="module")
def guide(folder):
    """The results of the example of the guide."""
    names = {"bert_tf": bert_tf}
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        exec(compile(program(section="Pretraining runs"), "python.md", "exec"), names)
    return names["results"]


def test_the_example_of_the_guide_trains_and_evaluates(guide):
    assert guide["global_step"] == 6
    assert 0 <= guide["masked_lm_accuracy"] <= 1


@pytest.mark.slow
def test_a_resumed_call_gives_the_result_of_the_guide_and_of_the_program(
    folder, guide, tmp_path, monkeypatch
):
    monkeypatch.chdir(folder)
    stopped = bert_tf.RuntimeConfig(stop_at_step=3)
    train_only = bert_tf.RunPhases(train=True, evaluate=False)
    assert pretrain(tmp_path / "calls", runtime=stopped, phases=train_only) == {}
    assert pretrain(tmp_path / "calls") == pytest.approx(guide)

    flags = {
        "input_file": "records/train-*.tfrecord",
        "eval_input_file": "records/eval.tfrecord",
        "bert_config_file": "tiny",
        "vocab_file": "vocab.txt",
        "output_dir": tmp_path / "program",
        "do_train": True,
        "do_eval": True,
        "max_eval_steps": 10,
        "num_train_steps": 6,
        "num_warmup_steps": 1,
    }
    (result,) = run_main("bert_tf.run_scripts.run_pretraining", as_flags(flags))
    assert result.code == 0, result.err
    lines = (tmp_path / "program/eval_results.txt").read_text().splitlines()
    assert {name: float(value) for name, value in map(split, lines)} == pytest.approx(
        guide
    )
    assert (tmp_path / "program/training_config.json").read_text() == (
        tmp_path / "calls/training_config.json"
    ).read_text()


def split(line):
    return line.split(" = ")


def test_a_call_without_training_uses_the_run_or_the_checkpoint(
    folder, guide, tmp_path, monkeypatch
):
    monkeypatch.chdir(folder)
    evaluate_only = bert_tf.RunPhases(train=False, evaluate=True)
    for output_dir, init_checkpoint in (
        ("runs/pretrained", None),
        (tmp_path / "new", "runs/pretrained"),
    ):
        found = bert_tf.pretrain(
            None,
            str(output_dir),
            eval_input_file="records/eval.tfrecord",
            init_checkpoint=init_checkpoint,
            phases=evaluate_only,
            config=bert_tf.PretrainingConfig(max_eval_steps=10),
        )
        assert found["masked_lm_loss"] == pytest.approx(guide["masked_lm_loss"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"training": bert_tf.TrainingConfig()}, "contains a run with num_train"),
        ({"config": bert_tf.PretrainingConfig(objective="causal")}, "objective=causal"),
        ({"bert_config_file": None}, "bert_config_file"),
        ({"eval_input_file": "records/missing"}, "records/missing"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    folder, guide, tmp_path, monkeypatch, changes, words
):
    monkeypatch.chdir(folder)
    output = "runs/pretrained" if "training" in changes else tmp_path
    with refused(words):
        pretrain(output, **changes)


def test_lengths_and_sizes_out_of_range_are_refused():
    for name in ("max_seq_length", "max_predictions_per_seq", "eval_batch_size"):
        with refused(name):
            bert_tf.PretrainingConfig(**{name: 0})
    with refused("objective"):
        bert_tf.PretrainingConfig(objective="nsp")
