"""The examples of `fine_tune` in docs/python.md run, one for each task."""

import pytest
from guide_program import program, write_checkpoints
from run_programs import read_lines, results_of

import bert_tf


@pytest.mark.medium
def test_each_task_trains_and_writes_its_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_checkpoints(tmp_path)
    names = {"bert_tf": bert_tf}
    exec(compile(program(section="Fine-tuning runs"), "python.md", "exec"), names)
    assert names["results"]["global_step"] == 9  # int(12 / 4 * 3)
    metrics = {
        "mrpc": "f1",
        "topics": "micro_f1",
        "squad": "exact_match",
        "entities": "f1",
    }
    for folder, metric in metrics.items():
        assert f"eval_{metric}" in results_of(f"runs/{folder}")
    (prediction,) = read_lines("runs/topics/predictions.jsonl")
    assert prediction["text"] == "good"
    assert bert_tf.load("runs/topics").facts["labels"] == ["art", "fun"]
    assert bert_tf.load("runs/entities").facts["labels"] == ["O", "B-PER", "I-PER"]
    assert bert_tf.load("runs/squad").facts["doc_stride"] == 16
    assert len(read_lines("runs/choices/predictions.jsonl")) == 32
    assert not (tmp_path / "runs/choices/eval_results.txt").exists()
