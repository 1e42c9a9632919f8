"""Runs of a tiny model on own data: from a file of scores or topics to predictions.

The runs of `test_fine_tuning` and of the programs have one label for each text.
"""

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
from run_programs import read_lines
from tables_of_rows import write_rows
from tiny_bert import SPECIAL, write_architecture

import bert_tf
from bert_tf.runs.fine_tuning_config import FineTuningConfig
from bert_tf.tasks.classification.sources.custom import TextColumns, custom_task
from bert_tf.tasks.task import DataLocation
from bert_tf.training.training_config import RunPhases, RuntimeConfig, TrainingConfig

WORDS = ("good", "bad", "film")
VOCABULARY = [*SPECIAL, *WORDS]
LABELS = {
    "regression": {"good": 2.0, "bad": 0.0, "film": 1.0},
    "multi_label": {"good": ["opinion", "pos"], "bad": ["opinion"], "film": []},
}


def label_of(words, task_type):
    return LABELS[task_type][words[-1]]


@pytest.fixture(
    params=["regression", pytest.param("multi_label", marks=pytest.mark.medium)]
)
def task_type(request):
    return request.param


@pytest.fixture
def data_dir(tmp_path, task_type):
    write_architecture(tmp_path, VOCABULARY, 16, hidden_dropout_prob=0.0)
    rng = np.random.default_rng(0)
    for split, count in (("train", 160), ("validation", 40), ("test", 30)):
        texts = [
            ["film"] * rng.integers(1, 4) + [rng.choice(WORDS)] for _ in range(count)
        ]
        rows = [{"text": " ".join(t), "target": label_of(t, task_type)} for t in texts]
        write_rows(tmp_path / f"{split}.parquet", rows)
    return tmp_path


def test_a_run_learns_the_task_and_writes_its_files(data_dir, task_type):
    output = data_dir / "out"
    results = bert_tf.fine_tune(
        custom_task(TextColumns("text", label="target"), task_type),
        DataLocation(data_dir=str(data_dir)),
        str(output),
        bert_config_file=f"{data_dir}/config.json",
        vocab_file=f"{data_dir}/vocab.txt",
        do_lower_case=True,
        phases=RunPhases(True, True, True),
        config=FineTuningConfig(max_seq_length=8, num_train_epochs=10),
        training=TrainingConfig(seed=1, global_batch_size=8, learning_rate=5e-3),
        runtime=RuntimeConfig(eval_steps=80),
    )
    rows = read_lines(output / "predictions.jsonl")
    scores = np.loadtxt(output / "test_results.tsv", ndmin=2)
    truth = [label_of(row["text"].split(), task_type) for row in rows]
    assert [row["target"] for row in rows] == truth and len(rows) == len(scores) == 30
    values = dict(line.split(" = ") for line in (output / "test_results.txt").open())
    has_report = (output / "eval_report.txt").exists()
    if task_type == "regression":
        errors = read_lines(output / "errors.jsonl")
        distances = [abs(row["target"] - row["score"]) for row in errors]
        assert distances == sorted(distances, reverse=True) and len(errors) == 40
        loss = np.mean(np.square(distances))  # as the run computes it
        assert loss == pytest.approx(results["eval_loss"], rel=1e-4)
        found = scipy.stats.spearmanr(truth, [row["score"] for row in rows]).statistic
        assert min(found, results["eval_spearman"], results["eval_pearson"]) > 0.8
        assert float(values["test_spearman"]) == pytest.approx(found)
        assert not has_report and scores.shape == (30, 1)
        return
    assert has_report
    predicted, labels = [row["predicted"] for row in rows], ("opinion", "pos")
    true, chosen = (
        [[name in row for name in labels] for row in rows]
        for rows in (truth, predicted)
    )
    found = sklearn.metrics.f1_score(true, chosen, average="micro")
    assert min(found, results["eval_micro_f1"], results["eval_macro_f1"]) > 0.8
    # Rows without a label are part of it.
    assert float(values["test_micro_f1"]) == pytest.approx(found) and [] in truth
    assert (output / "test_report.txt").exists()
    np.testing.assert_array_equal(scores >= 0.5, chosen)
