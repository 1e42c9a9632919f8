"""Runs of a tiny model: exact resume, best weights by the metric, files, streaming."""

import logging
import os

import numpy as np
import pytest
import sklearn.metrics
from event_files import steps_by_tag
from golden_checkpoints import assert_same_arrays
from json_files import read_json
from linear_runs import log_entries
from refusals import refused
from run_programs import read_lines
from safetensors.numpy import load_file, save_file
from tensorflow.python.framework import config as framework_config
from tiny_bert import SPECIAL, write_architecture

import bert_tf
from bert_tf.modeling import arrays_by_name
from bert_tf.runs import step_costs
from bert_tf.runs.fine_tuning_config import FineTuningConfig
from bert_tf.tasks.classification.classification_results import ClassificationResults
from bert_tf.tasks.classification.sources.glue_tasks import GLUE_TASKS
from bert_tf.tasks.task import DataLocation
from bert_tf.training.training_config import RunPhases, RuntimeConfig, TrainingConfig

WORDS = ["good", "bad", "film", "very", "not", "plot", "actor"]
VOCABULARY = [*SPECIAL, *WORDS]


@pytest.fixture
def data_dir(tmp_path):
    rng = np.random.default_rng(0)
    for split, count in (("train", 90), ("dev", 30), ("test", 20)):
        lines = ["index\tsentence" if split == "test" else "sentence\tlabel"]
        for number in range(count):
            words = rng.choice(WORDS, rng.integers(1, 12)).tolist()
            label = int(words.count("good") >= words.count("bad"))
            text = " ".join(words)
            lines.append(f"{number}\t{text}" if split == "test" else f"{text}\t{label}")
        (tmp_path / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    write_architecture(tmp_path, VOCABULARY, 16)
    return tmp_path


def run(
    data_dir,
    phases=None,
    output="out",
    name="sst-2",
    location=None,
    model=None,
    init_head=None,
    learning_rate=1e-2,
    **runtime,
):
    return bert_tf.fine_tune(
        GLUE_TASKS[name],
        location or DataLocation(data_dir=data_dir),
        data_dir / output,
        init_checkpoint=model,
        bert_config_file=data_dir / "config.json",
        vocab_file=data_dir / "vocab.txt",
        do_lower_case=True,
        init_head=init_head,
        phases=phases or RunPhases(True, True),
        config=FineTuningConfig(max_seq_length=np.int64(16), num_train_epochs=4),
        training=TrainingConfig(
            seed=1, global_batch_size=8, learning_rate=learning_rate
        ),
        runtime=RuntimeConfig(**runtime),
    )


def weights_of(output):
    checkpoint = max(os.listdir(output / "checkpoints"))
    return load_file(
        output / "checkpoints" / checkpoint / "model.safetensors"
    ), checkpoint


@pytest.fixture
def determinism_of_this_test():
    """Ends deterministic operations after the test.

    TensorFlow has no public function for it.
    """
    yield
    framework_config.disable_op_determinism()


@pytest.mark.medium
@pytest.mark.usefixtures("determinism_of_this_test")
def test_a_resumed_run_has_the_same_bits(data_dir):
    results = run(data_dir, deterministic=True)
    expected, name = weights_of(data_dir / "out")
    assert name == "step-00000045"  # int(90 / 8 * 4)
    # Step 7 is in the first epoch, and step 25 is in the third one and in the second
    # window.
    for stop in (7, 25):
        phases = RunPhases(True, False)
        run(data_dir, phases, "resumed", deterministic=True, stop_at_step=stop)
    assert run(data_dir, output="resumed", deterministic=True) == results
    found, _ = weights_of(data_dir / "resumed")
    assert_same_arrays(found, expected)
    # The step determines the position in the data, so checkpoints do not contain it.
    names = os.listdir(data_dir / "resumed/checkpoints/step-00000045")
    assert not [each for each in names if "position" in each]


def test_the_size_of_a_step_counts_padding(data_dir, monkeypatch, caplog):
    # Sequences of five tokens, in batches of eight, padded to a multiple of six.
    lines = ["sentence\tlabel", *["good bad film\t0", "very good plot\t1"] * 8]
    (data_dir / "train.tsv").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(step_costs, "length_step", lambda *_: 6)
    with caplog.at_level(logging.INFO):
        run(data_dir, RunPhases(True, False), stop_at_step=1)
    assert " 48 tokens and " in caplog.text


def test_the_metric_of_the_task_selects_the_best_weights(data_dir):
    # The files of CoLA: no header, text in the fourth column.
    for name in ("train", "dev"):
        path = data_dir / f"{name}.tsv"
        rows = [line.split("\t") for line in path.read_text().splitlines()[1:]]
        path.write_text("".join(f"x\t{label}\t\t{text}\n" for text, label in rows))
    run(data_dir, name="cola", eval_steps=5, early_stopping_evals=3)
    evals = log_entries(data_dir / "out", "eval")
    best = max(line["matthews_correlation"] for line in evals)
    saved = read_json(data_dir / "out/best/weights.json")
    assert saved["eval"]["matthews_correlation"] == best
    first_best = next(line for line in evals if line["matthews_correlation"] == best)
    assert saved["step"] == first_best["step"]
    # Training stops after three evaluations that are not better.
    assert evals[-1]["step"] == min(first_best["step"] + 15, 45)


def test_results_and_predictions_belong_to_the_files(data_dir):
    output = data_dir / "out"
    results = run(data_dir, RunPhases(True, True, True))
    lines = (output / "eval_results.txt").read_text().splitlines()
    values = {name: float(value) for name, value in (x.split(" = ") for x in lines)}
    assert values == pytest.approx(results)
    assert values.keys() == {
        "eval_accuracy", "eval_accuracy_baseline", "eval_loss", "global_step", "loss",
    }  # fmt: skip
    assert len(np.loadtxt(output / "test_results.tsv")) == 20
    lines = (data_dir / "dev.tsv").read_text().splitlines()[1:]
    labels = np.array([int(line[-1]) for line in lines])
    assert read_json(output / "results.json") == {
        "task": "sst-2", "metric": "eval_accuracy", "higher_is_better": True,
        "value": results["eval_accuracy"],
        "baseline": max(labels.mean(), 1 - labels.mean()), "results": results,
    }  # fmt: skip

    # The dev file as a test file of another name: the same probabilities as in the
    # evaluation.
    location = DataLocation(test_file=f"{data_dir}/dev.tsv")
    run(data_dir, RunPhases(False, False, True), location=location)
    probabilities = np.loadtxt(output / "test_results.tsv")
    loss = sklearn.metrics.log_loss(
        labels, probabilities / probabilities.sum(1, keepdims=True)
    )
    assert results["eval_loss"] == pytest.approx(loss, abs=1e-5)
    assert results["eval_accuracy"] == np.mean(probabilities.argmax(axis=1) == labels)


def config_of(data_dir):
    return bert_tf.BertConfig.from_dict(read_json(data_dir / "config.json"))


@pytest.mark.parametrize(
    "kind",
    [
        "no_head",
        *(
            pytest.param(kind, marks=pytest.mark.medium)
            for kind in ("random", "no_pooler")
        ),
    ],
)
def test_weights_that_a_checkpoint_lacks_are_those_of_the_seed(data_dir, kind):
    config = config_of(data_dir)
    expected = arrays_by_name(bert_tf.BertClassifier(config, num_labels=2, seed=1))
    checkpoint = init_head = None
    if kind != "random":
        checkpoint = f"{data_dir}/model"
        model = bert_tf.BertClassifier(config, num_labels=2, seed=5)
        labels = ["0", "1"] if kind == "no_head" else ["1", "0"]
        bert_tf.save_checkpoint(model, None, checkpoint, "hugging_face", labels=labels)
        kept = {
            name: value
            for name, value in arrays_by_name(model).items()
            if name.startswith("bert/")
            and (kind != "no_pooler" or "pooler" not in name)
        }
        expected |= kept
    if kind == "no_head":
        init_head = False
    if kind == "no_pooler":
        path = f"{checkpoint}/model.safetensors"
        arrays = {k: v for k, v in load_file(path).items() if "pooler" not in k}
        save_file(arrays, path)

    run(
        data_dir,
        model=checkpoint,
        init_head=init_head,
        learning_rate=1e-30,  # changes no weight
        stop_at_step=1,
    )
    found, _ = weights_of(data_dir / "out")
    assert_same_arrays(found, expected)


def write_model(data_dir, bias):
    """Writes a model whose biases have this value; returns its path."""
    model = bert_tf.BertClassifier(config_of(data_dir), num_labels=2)
    for variable in model.trainable_variables:
        if variable.name == "bias":
            variable.assign(np.full(variable.shape, bias, np.float32))
    tokenizer = bert_tf.BertTokenizer(VOCABULARY)
    facts = GLUE_TASKS["sst-2"].facts.saved()
    return bert_tf.save_checkpoint(model, tokenizer, f"{data_dir}/model", **facts)


def test_predictions_that_are_not_finite_are_refused(data_dir):
    model = write_model(data_dir, 3e38)
    with refused("for example 1 of the test split are NaN or infinite"):
        run(data_dir, RunPhases(False, False, True), model=model)
    assert not list((data_dir / "out").glob("*.tsv")), "no predictions"


@pytest.mark.medium
def test_a_model_that_is_no_better_than_the_most_frequent_label_is_reported(
    data_dir, caplog
):
    path = data_dir / "dev.tsv"
    header, *rows = path.read_text().splitlines()
    path.write_text("\n".join([header, *(f"{row[:-1]}1" for row in rows)]) + "\n")
    with caplog.at_level("WARNING", "bert_tf"):
        run(data_dir, stop_at_step=2)
    assert "no better than a constant prediction: accuracy" in caplog.text
    assert "and 1.0000 if all predictions are the same" in caplog.text

    # The result of an evaluation is removed before the run trains again.
    assert (data_dir / "out/results.json").exists()
    run(data_dir, RunPhases(True, False), stop_at_step=3)
    assert not (data_dir / "out/results.json").exists()


def test_limits_use_the_first_examples(data_dir):
    location = DataLocation(
        data_dir=str(data_dir), max_train_examples=16, max_eval_examples=7
    )
    run(data_dir, RunPhases(True, True, True), location=location)
    assert weights_of(data_dir / "out")[1] == "step-00000008"  # int(16 / 8 * 4)
    assert len(np.loadtxt(data_dir / "out/test_results.tsv")) == 7


def test_an_evaluation_without_labels_is_refused(data_dir, monkeypatch):
    monkeypatch.setattr(ClassificationResults, "metrics", lambda _: {})
    model = write_model(data_dir, 0)
    with refused(r"No example of .*dev\.tsv has a label or an answer"):
        run(data_dir, RunPhases(False, True), model=model)


@pytest.mark.medium
def test_the_errors_are_those_of_the_last_evaluation(data_dir):
    output, dev_file = data_dir / "out", data_dir / "dev.tsv"
    run(data_dir, stop_at_step=2, eval_steps=1)
    # The predictions for the dev file, as a test file.
    location = DataLocation(test_file=str(dev_file))
    run(data_dir, RunPhases(False, False, True), location=location)
    rows = read_lines(output / "predictions.jsonl")
    wrong = [row for row in rows if row["predicted"] != row["label"]]
    wrong.sort(key=lambda row: -row["probability"])
    assert read_lines(output / "errors.jsonl") == wrong and wrong

    # TensorBoard has each evaluation.
    steps = steps_by_tag(output / "eval")
    assert steps["samples"] == steps["confusion"] == [1, 2]
    (events,) = (output / "eval").glob("events.out.tfevents.*")
    content = events.read_bytes().decode("utf-8", "replace")
    assert "The worst errors:\n" in content and f'"{wrong[0]["sentence"]}"' in content

    # Without an error, there is no file.
    texts = dict.fromkeys((row["sentence"], row["predicted"]) for row in rows)
    lines = "".join(f"{text}\t{label}\n" for text, label in texts)
    dev_file.write_text(f"sentence\tlabel\n{lines}")
    run(data_dir, RunPhases(False, True))
    assert not (output / "errors.jsonl").exists()
