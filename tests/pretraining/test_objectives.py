"""The losses of each objective, compared with NumPy.

The programs, run with each objective.
"""

import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tiny_bert
import tiny_corpus
from json_files import read_json, write_json
from refusals import refused
from run_programs import assert_refused, run_lines, run_well

from bert_tf.config import BertConfig
from bert_tf.modeling import BertPretrainer
from bert_tf.pretraining.pretraining_config import PretrainingRecords
from bert_tf.pretraining.pretraining_objective import (
    PretrainingObjective,
    majority_accuracies,
    warn_if_no_better,
)
from bert_tf.runs.pretrain import _report_settings
from bert_tf.training.step.objective import loss_and_metrics
from bert_tf.training.training_config import RunPhases, TrainingConfig

PRETRAINING = "bert_tf.run_scripts.run_pretraining"
FIELDS = {**tiny_bert.CONFIG, "vocab_size": 11, "max_position_embeddings": 6}
BATCH = {
    "input_ids": np.array([[2, 5, 6, 3, 7, 3], [2, 8, 3, 9, 0, 0]], np.int32),
    "input_mask": np.array([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]], np.int32),
    "segment_ids": np.array([[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 0, 0]], np.int32),
    "masked_lm_positions": np.array([[1, 4, 0], [3, 0, 0]], np.int32),
    "masked_lm_ids": np.array([[10, 5, 0], [4, 0, 0]], np.int32),
    "masked_lm_weights": np.array([[1, 1, 0], [1, 0, 0]], np.float32),
    "next_sentence_labels": np.array([[0], [1]], np.int32),
}


def log_probabilities(logits):
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def predictions(model, where):
    """Returns mean loss and accuracy.

    `where` lists the predictions: (row, position, true id).
    """
    inputs = {name: BATCH[name] for name in ("input_ids", "input_mask", "segment_ids")}
    scores = log_probabilities(np.asarray(model(inputs)["masked_lm_logits"]))
    losses = [-scores[row, position, token] for row, position, token in where]
    right = [scores[row, position].argmax() == token for row, position, token in where]
    return np.mean(losses), np.mean(right)


def metrics(objective):
    batch = {name: tf.constant(value) for name, value in BATCH.items()}
    sums, counts = objective.sums(batch, training=False), objective.counts(batch)
    values = loss_and_metrics(objective, sums, counts)
    np.testing.assert_allclose(
        float(objective.loss(sums, counts)), values["loss"], rtol=1e-6
    )
    return values


FOLLOWING = [(0, 0, 5), (0, 1, 6), (0, 2, 3), (0, 3, 7), (0, 4, 3), (1, 0, 8)]


@pytest.mark.parametrize(
    ("kind", "attention", "where"),
    [
        ("mlm", "bidirectional", [(0, 1, 10), (0, 4, 5), (1, 3, 4)]),
        ("causal", "causal", [*FOLLOWING, (1, 1, 3), (1, 2, 9)]),
    ],
)
def test_losses_without_next_sentence(kind, attention, where):
    """The causal loss predicts every next token."""
    config = BertConfig(**FIELDS, attention=attention)
    model = BertPretrainer(config, next_sentence=False, seed=1)
    values = metrics(PretrainingObjective(model, kind))
    loss, accuracy = predictions(model, where)
    np.testing.assert_allclose(values["masked_lm_loss"], loss, rtol=1e-5)
    np.testing.assert_allclose(values["loss"], loss, rtol=1e-4)
    assert values["masked_lm_accuracy"] == accuracy
    assert set(values) == {"loss", "masked_lm_loss", "masked_lm_accuracy"}


def test_causal_objective_refuses_bidirectional_attention():
    message = r'with attention="causal"\. Received: attention="bidirectional"'
    with refused(message):
        PretrainingObjective(BertPretrainer(BertConfig(**FIELDS)), "causal")


@pytest.mark.slow
def test_mlm_and_causal_objectives_in_all_programs(tmp_path, monkeypatch):
    """Creates records, pretrains and fine-tunes with the objectives mlm and causal."""
    tiny_corpus.vocabulary_file(tmp_path)
    (tmp_path / "corpus.txt").write_text(tiny_corpus.text_of(tiny_corpus.corpus(20)))
    config = {
        **FIELDS,
        "vocab_size": len(tiny_corpus.VOCABULARY),
        "max_position_embeddings": 16,
    }
    write_json(tmp_path / "config.json", config)
    (tmp_path / "task").mkdir()
    for split in ("train", "dev"):
        lines = ["sentence\tlabel", *("waa wab\t1", "wac\t0") * 8]
        (tmp_path / "task" / f"{split}.tsv").write_text("\n".join(lines) + "\n")

    monkeypatch.chdir(tmp_path)
    sizes = "--vocab_file=vocab.txt --max_seq_length=16 --max_predictions_per_seq=3"
    pretrain = (
        f"{sizes} --bert_config_file=config.json --do_train --do_eval "
        "--num_train_steps=4 --num_warmup_steps=1 --max_eval_steps=2"
    )
    for objective, attention in (("mlm", "bidirectional"), ("causal", "causal")):
        run_well(
            "bert_tf.data_prep.create_pretraining_data",
            f"{sizes} --input_file=corpus.txt --output_file={objective}.tfrecord "
            f"--dupe_factor=1 --objective={objective}",
        )
        run_well(
            PRETRAINING,
            f"{pretrain} --input_file={objective}.tfrecord --output_dir={objective} "
            f"--objective={objective}",
        )
        run_well(
            "bert_tf.run_scripts.run_classifier",
            "--task_name=sst-2 --data_dir=task --do_train --do_eval --eval_steps=2 "
            f"--init_checkpoint={objective} --output_dir=task-{objective} "
            "--max_seq_length=8 --train_batch_size=4 --num_train_epochs=1 "
            "--layer_decay=0.9 --ema_decay=0.5",
        )
        results = (tmp_path / objective / "eval_results.txt").read_text()
        assert "masked_lm_accuracy" in results and "next_sentence" not in results
        for folder in (objective, f"task-{objective}"):
            kept = read_json(f"{folder}/bert_config.json")
            assert kept.get("attention", "bidirectional") == attention
        assert pathlib.Path(f"task-{objective}/best/model.safetensors").exists()

    (other,) = run_lines(
        PRETRAINING,
        f"{pretrain} --input_file=causal.tfrecord --output_dir=mlm_nsp "
        "--objective=mlm_nsp",
    )
    assert_refused(
        other,
        "created with --objective=causal, but this run has --objective=mlm_nsp. Give",
    )


def test_majority_accuracies_are_the_shares_of_the_most_frequent_answers(caplog):
    batches = [{name: tf.constant(value) for name, value in BATCH.items()}] * 2
    pair = PretrainingObjective(BertPretrainer(BertConfig(**FIELDS)))
    assert majority_accuracies(pair, batches) == {
        "masked_lm_majority_accuracy": pytest.approx(1 / 3),
        "next_sentence_majority_accuracy": 0.5,
    }
    config = BertConfig(**FIELDS, attention="causal")
    causal = PretrainingObjective(BertPretrainer(config, next_sentence=False), "causal")
    # The predicted tokens are 5 6 3 7 3 and 8 3 9.
    assert majority_accuracies(causal, batches) == {
        "masked_lm_majority_accuracy": 3 / 8
    }

    results = {"masked_lm_accuracy": 1 / 3, "next_sentence_accuracy": 0.6}
    warn_if_no_better({**results, **majority_accuracies(pair, batches)})
    (record,) = caplog.records
    assert "masked_lm_accuracy is 0.3333" in record.getMessage()
    caplog.clear()
    # With one label only, no model can be better.
    warn_if_no_better(
        {"next_sentence_accuracy": 1.0, "next_sentence_majority_accuracy": 1.0}
    )
    assert not caplog.records


def test_a_run_that_evaluates_its_training_records_reports_it(
    caplog, tmp_path, monkeypatch
):
    caplog.set_level("INFO")
    monkeypatch.chdir(tmp_path)
    pathlib.Path("link").symlink_to("b")
    training = TrainingConfig(num_train_steps=1000, num_warmup_steps=100)
    held_out = PretrainingRecords(["a", "b"], ["c"], 8, 2)
    _report_settings(RunPhases(True, True), held_out, training)
    assert [record.getMessage() for record in caplog.records] == [
        "warm-up: 100 of 1,000 steps"
    ]
    caplog.clear()
    for same in ("./b", "link"):
        trained = PretrainingRecords(["a", "b"], [same, "c", "d"], 8, 2)
        _report_settings(RunPhases(False, True), trained, training)
        message = caplog.records[-1].getMessage()
        assert f"reads training records (1 of 3 files, such as {same})" in message
        assert "eval_fraction" in message
    assert len(caplog.records) == 2
