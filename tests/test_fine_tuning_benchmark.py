"""The parts of benchmarks/fine_tuning.py that need neither training nor PyTorch."""

import json

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from benchmarks import fine_tuning, fine_tuning_peer

ROWS = {
    "mrpc": (
        "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
        '1\t7\t8\tHe said " no .\tHe said "no" .\n0\t9\t1\ta\tb\n',
        [(['He said " no .', 'He said "no" .'], 1), (["a", "b"], 0)],
    ),
    "rte": (
        "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\tnot_entailment\n1\tC.\tD.\tentailment\n",
        [(["A.", "B."], 1), (["C.", "D."], 0)],
    ),
    "cola": (
        "gj04\t1\t\tA sentence.\ngj04\t0\t*\tSentence a.\n",
        [(["A sentence."], 1), (["Sentence a."], 0)],
    ),
    "sst-2": ("sentence\tlabel\ngood \t1\nbad\t0\n", [(["good "], 1), (["bad"], 0)]),
    "sts-b": (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
        "0\tg\tf\ty\t0001\tn\tn\tA plane.\tAn air plane.\t5.000\n"
        "1\tg\tf\ty\t0004\tn\tn\tA man.\tA woman.\t3.800\n",
        [(["A plane.", "An air plane."], 5.0), (["A man.", "A woman."], 3.8)],
    ),
}


@pytest.mark.parametrize("name", list(ROWS))
def test_peer_reads_the_rows_of_each_task(name, tmp_path):
    text, expected = ROWS[name]
    path = tmp_path / "train.tsv"
    path.write_bytes(text.encode())
    task = fine_tuning_peer.TASKS[name]
    assert fine_tuning_peer.read_examples(str(path), task) == expected
    assert fine_tuning_peer.read_examples(str(path), task, limit=1) == expected[:1]


def test_peer_has_each_task_of_the_test():
    assert set(fine_tuning_peer.TASKS) == set(ROWS)


def test_scores_of_a_classification():
    rng = np.random.default_rng(0)
    labels, logits = rng.integers(0, 2, 50), rng.normal(size=(50, 2))
    predicted = np.where(logits[:, 1] > logits[:, 0], 1, 0)
    names = ("accuracy", "f1", "matthews_correlation")
    assert fine_tuning_peer.scores(names, labels, logits) == {
        "accuracy": pytest.approx(np.mean(labels == predicted)),
        "f1": pytest.approx(sklearn.metrics.f1_score(labels, predicted)),
        "matthews_correlation": pytest.approx(sklearn.metrics.matthews_corrcoef(labels, predicted)),
    }


def test_scores_of_a_regression():
    rng = np.random.default_rng(0)
    values, outputs = rng.uniform(0, 5, 30), rng.normal(size=(30, 1))
    assert fine_tuning_peer.scores(("pearson", "spearman"), values, outputs) == {
        "pearson": pytest.approx(np.corrcoef(values, outputs[:, 0])[0, 1]),
        "spearman": pytest.approx(scipy.stats.spearmanr(values, outputs[:, 0]).statistic),
    }


def test_results_of_bert_tf_are_read():
    text = "accuracy = 0.75\neval_f1 = 0.8\nglobal_step = 343\n"
    assert fine_tuning.parse_results(text) == {"accuracy": 0.75, "f1": 0.8, "global_step": 343}


def test_training_time_is_the_sum_over_the_log_entries():
    entries = [
        {"step": 20, "kind": "train", "examples_per_sec_wall_clock": 64.0},  # 10 s
        {"step": 20, "kind": "eval", "loss": 1.0},
        {"step": 25, "kind": "train", "examples_per_sec_wall_clock": 40.0},  # 4 s
    ]
    text = "".join(json.dumps(entry) + "\n" for entry in entries)
    assert fine_tuning.training_time(text, 32) == (25, pytest.approx(14))


def fake_run(calls, fail_at=None):
    """Returns a function that replaces `measure`, and that fails in the given call."""

    def run(system, settings):
        calls.append((system, settings["seed"]))
        if len(calls) == fail_at:
            raise KeyboardInterrupt
        metrics = {"accuracy": settings["seed"] / 10}
        return {"metrics": metrics, "train_secs": 1.0, "wall_secs": 2.0, "cpu_secs": 3.0}

    return run


def test_finished_runs_are_not_repeated(tmp_path):
    path, systems, settings = tmp_path / "results.jsonl", ("a", "b"), {"task_name": "mrpc"}
    with pytest.raises(KeyboardInterrupt):
        fine_tuning.run_all(path, systems, settings, (1, 2), fake_run([], fail_at=4))
    calls = []
    results = fine_tuning.run_all(path, systems, settings, (1, 2), fake_run(calls))
    assert calls == [("b", 2)]
    assert [entry["settings"]["seed"] for entry in results["a"]] == [1, 2]
    assert len(path.read_text().splitlines()) == 4
    other = []
    fine_tuning.run_all(path, ("a",), {"task_name": "rte"}, (1,), fake_run(other))
    assert other == [("a", 1)]


def test_summary_has_mean_and_standard_error(tmp_path, capsys):
    results = fine_tuning.run_all(tmp_path / "r", ("a",), {}, (1, 2, 6), fake_run([]))
    table = fine_tuning.summarize(results)
    mean, error = table[0]["a"]
    assert table[0]["quantity"] == "accuracy"
    assert (mean, error) == pytest.approx((30, scipy.stats.sem([10, 20, 60])))
    assert [row["quantity"] for row in table[1:]] == ["train_secs", "wall_secs", "cpu_secs"]
    fine_tuning.print_summary("mrpc", 3, table)
    lines = capsys.readouterr().out.splitlines()
    assert "| accuracy | 30.00 (15.28) |" in lines
    assert json.loads(lines[-1])["a"] == [3.0, 0.0]


def test_a_single_run_has_no_standard_error():
    assert fine_tuning.mean_and_error([0.5]) == (0.5, None)
