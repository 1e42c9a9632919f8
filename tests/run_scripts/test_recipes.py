"""Runs small versions of the recipes."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
import tiny_corpus

ROOT = pathlib.Path(__file__).parent.parent.parent
CONFIG = {
    "vocab_size": len(tiny_corpus.VOCABULARY), "hidden_size": 8, "num_hidden_layers": 1,
    "num_attention_heads": 2, "intermediate_size": 8, "max_position_embeddings": 32,
    "type_vocab_size": 2,
}  # fmt: skip


def run_recipe(tmp_path, name, **settings):
    vocab = tiny_corpus.vocabulary_file(tmp_path)
    (tmp_path / "corpus.txt").write_text(tiny_corpus.text_of(tiny_corpus.corpus(60)))
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    environment = {
        "TEXT": f"{tmp_path}/corpus.txt", "VOCAB": vocab, "CONFIG": f"{tmp_path}/config.json",
        "OUT": f"{tmp_path}/out", "BATCH": "4", "STEPS": "20", "WARMUP": "2", "DUPE_FACTOR": "1",
        "PYTHON": sys.executable,
    }  # fmt: skip
    command = ["bash", str(ROOT / f"run_scripts/recipes/{name}.sh"), "--log_steps=1"]
    subprocess.run(command, env={**os.environ, **environment, **settings}, check=True)
    return tmp_path / "out"


def training_metrics(folder):
    """Returns the logged training metrics, keyed by step."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line for line in lines if line["kind"] == "train"}


@pytest.mark.slow
def test_two_phases_share_one_schedule(tmp_path):
    out = run_recipe(tmp_path, "pretrain_base", SHORT="16", LONG="32", EVAL_FRACTION="0.1")
    first, second = training_metrics(out / "phase1"), training_metrics(out / "phase2")
    assert (max(first), max(second)) == (18, 2)
    # Both phases share one linear decay from 1e-4 over 20 steps. Step n uses the learning rate
    # after n - 1 steps.
    assert first[18]["learning_rate"] == pytest.approx(1e-4 * (1 - 17 / 20), rel=1e-4)
    assert second[1]["learning_rate"] == pytest.approx(1e-4 * (1 - 18 / 20), rel=1e-4)
    assert second[2]["learning_rate"] == pytest.approx(1e-4 * (1 - 19 / 20), rel=1e-4)


@pytest.mark.slow
def test_the_recipe_of_mosaic_bert(tmp_path, capfd):
    out = run_recipe(
        tmp_path, "mosaic_bert", STEPS="100", WARMUP="", LENGTH="16", EVAL_FRACTION="0.1",
        PRECISION="float32", GLUE="my_glue",
    )  # fmt: skip
    settings = json.loads((out / "model/training_config.json").read_text())
    expected = {
        "num_train_steps": 100, "num_warmup_steps": 6, "adam_beta_1": 0.9, "adam_beta_2": 0.98,
        "learning_rate": 5e-4, "optimizer": "adamw", "schedule": "linear",
    }  # fmt: skip
    assert {name: settings[name] for name in expected} == expected
    # MosaicML multiplies each weight by 1 - 1e-5 in a step with the peak learning rate.
    assert settings["weight_decay_rate"] * settings["learning_rate"] == pytest.approx(1e-5)
    logged = training_metrics(out / "model")
    # 6 of 100 steps are warm-up. Step n uses the learning rate after n - 1 steps.
    assert logged[4]["learning_rate"] == pytest.approx(5e-4 * 3 / 6, rel=1e-4)
    assert logged[100]["learning_rate"] == pytest.approx(5e-4 * 1 / 94, rel=1e-4)
    assert "next_sentence_loss" not in logged[1]
    assert "masked_lm_accuracy" in (out / "model/eval_results.txt").read_text()
    text = capfd.readouterr().out
    assert "GLUE='my_glue'" in text and "bash run_scripts/recipes/table1_glue.sh" in text


@pytest.mark.slow
def test_ablations_pretrain_and_fine_tune_each_objective(tmp_path):
    folder = tmp_path / "mrpc"
    folder.mkdir()
    lines = [
        "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String",
        *("1\t1\t2\twaa\twab", "0\t1\t2\twaa\twac") * 16,
    ]
    for split in ("train", "dev"):
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    out = run_recipe(tmp_path, "ablations", MRPC=str(folder), LENGTH="16")
    for objective in ("mlm_nsp", "mlm", "causal"):
        assert "eval_accuracy" in (out / objective / "mrpc" / "eval_results.txt").read_text()
        config = json.loads((out / objective / "mrpc" / "bert_config.json").read_text())
        causal = config.get("attention", "bidirectional") == "causal"
        assert causal == (objective == "causal")
