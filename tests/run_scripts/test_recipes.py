"""Runs small versions of the recipes, end to end."""

import json
import os
import pathlib
import subprocess
import sys

import paper_data
import pytest
import tiny_corpus
from json_files import read_json, write_json
from run_programs import results_of

import bert_tf

ROOT = pathlib.Path(__file__).parent.parent.parent
CONFIG = {
    "vocab_size": len(tiny_corpus.VOCABULARY), "hidden_size": 8, "num_hidden_layers": 4,
    "num_attention_heads": 2, "intermediate_size": 8, "max_position_embeddings": 80,
    "type_vocab_size": 2,
}  # fmt: skip
SMALL = (
    "BATCH=4 STEPS=20 WARMUP=2 DUPE_FACTOR=1 SHORT=16 LONG=0 EVAL_FRACTION=0.1 "
    "LENGTH=16 SQUAD_LENGTH=80 NER_LENGTH=16 EPOCHS=1 FEATURE_EPOCHS=1"
)
pytestmark = pytest.mark.slow


def run_recipe(tmp_path, name, *flags, **settings):
    """Runs a recipe in a folder whose name has a blank.

    Returns the folder of its results.
    """
    folder = tmp_path / "a folder"
    folder.mkdir(exist_ok=True)
    vocab = tiny_corpus.vocabulary_file(folder)
    (folder / "corpus.txt").write_text(tiny_corpus.text_of(tiny_corpus.corpus(60)))
    write_json(folder / "config.json", CONFIG)
    environment = {
        "TEXT": f"{folder}/corpus.txt",
        "VOCAB": vocab,
        "CONFIG": f"{folder}/config.json",
        "OUT": f"{folder}/out",
        **dict(setting.split("=") for setting in SMALL.split()),
        "PYTHON": sys.executable,
    }
    script = ROOT / f"run_scripts/recipes/{name}.sh"
    command = ["bash", str(script), "--log_steps=1", *flags]
    subprocess.run(command, env={**os.environ, **environment, **settings}, check=True)
    return folder / "out"


@pytest.fixture
def model(tmp_path):
    """The path of a checkpoint with random weights."""
    encoder = bert_tf.BertEncoder(bert_tf.BertConfig.from_dict(CONFIG), seed=0)
    tokenizer = bert_tf.BertTokenizer(tiny_corpus.VOCABULARY)
    return bert_tf.save_checkpoint(encoder, tokenizer, str(tmp_path / "model"))


def table_of(out):
    """Returns the result and the number of runs of each row.

    None for a missing result.
    """
    rows = [
        line.split("\t") for line in (out / "table.tsv").read_text().splitlines()[1:]
    ]
    return {
        (label, metric): (None if result == "-" else float(result), int(runs))
        for label, metric, _, result, runs in rows
    }


def checkpoints(out):
    """Returns the times of the last changes of all checkpoints."""
    return {path: path.stat().st_mtime_ns for path in out.rglob("checkpoints/step-*/*")}


def training_metrics(folder):
    """Returns the logged training metrics, keyed by step."""
    lines = [
        json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()
    ]
    return {line["step"]: line for line in lines if line["kind"] == "train"}


def test_two_phases_share_one_schedule(tmp_path):
    out = run_recipe(tmp_path, "pretrain_base", LONG="32")
    first, second = training_metrics(out / "phase1"), training_metrics(out / "phase2")
    assert (max(first), max(second)) == (18, 2)
    # Both phases share one linear decay from 1e-4 over 20 steps. Step n uses the
    # learning rate after n - 1 steps.
    assert first[18]["learning_rate"] == pytest.approx(1e-4 * (1 - 17 / 20), rel=1e-4)
    assert second[1]["learning_rate"] == pytest.approx(1e-4 * (1 - 18 / 20), rel=1e-4)
    assert second[2]["learning_rate"] == pytest.approx(1e-4 * (1 - 19 / 20), rel=1e-4)


def test_the_recipe_of_mosaic_bert(tmp_path, capfd):
    out = run_recipe(
        tmp_path, "mosaic_bert", STEPS="100", WARMUP="",
        PRECISION="float32", GLUE="my_glue",
    )  # fmt: skip
    settings = read_json(out / "model/training_config.json")
    expected = {
        "num_train_steps": 100,
        "num_warmup_steps": 6,
        "adam_beta_1": 0.9,
        "adam_beta_2": 0.98,
        "learning_rate": 5e-4,
        "optimizer": "adamw",
        "schedule": "linear",
    }
    assert {name: settings[name] for name in expected} == expected
    # MosaicML multiplies each weight by 1 - 1e-5 in a step with the peak learning rate.
    assert settings["weight_decay_rate"] * settings["learning_rate"] == pytest.approx(
        1e-5
    )
    logged = training_metrics(out / "model")
    # 6 of 100 steps are warm-up. Step n uses the learning rate after n - 1 steps.
    assert logged[4]["learning_rate"] == pytest.approx(5e-4 * 3 / 6, rel=1e-4)
    assert logged[100]["learning_rate"] == pytest.approx(5e-4 * 1 / 94, rel=1e-4)
    assert "next_sentence_loss" not in logged[1]
    assert "masked_lm_accuracy" in (out / "model/eval_results.txt").read_text()
    text = capfd.readouterr().out
    assert (
        f"MODEL='{out}/model' GLUE='my_glue'" in text
        and "bash run_scripts/recipes/table1_glue.sh" in text
    )


def test_glue(tmp_path, model):
    data = paper_data.write_glue(tmp_path / "glue")
    # One task for pairs with two dev splits, one with a correlation, and one with
    # single texts.
    tasks = {"TASKS": "MNLI STS-B SST-2", "RATES": "5e-5"}
    out = run_recipe(tmp_path, "table1_glue", MODEL=model, GLUE=data, **tasks)
    table = table_of(out)
    assert len(table) == 10
    found = [label for (label, _), (result, _) in table.items() if result is not None]
    assert found == ["MNLI-m", "MNLI-mm", "SST-2", "STS-B"]


def test_squad_2_uses_the_best_threshold_and_the_same_command_again_trains_nothing(
    tmp_path, model
):
    data = paper_data.write_squad(tmp_path / "squad", "2.0")
    settings = {"MODEL": model, "SQUAD": data, "LENGTH": "80"}
    out = run_recipe(tmp_path, "table3_squad2", **settings)
    best, table = results_of(out / "squad")["eval_best_f1"], table_of(out)
    assert table["SQuAD 2.0 dev", "F1"] == (pytest.approx(best, abs=0.051), 1)
    assert best >= 50  # half of the questions have no answer
    before = checkpoints(out)
    run_recipe(tmp_path, "table3_squad2", **settings)
    assert table_of(out) == table and checkpoints(out) == before


def test_ablations_pretrain_and_fine_tune_each_objective(tmp_path):
    glue = paper_data.write_glue(tmp_path / "glue", ["MRPC"])
    squad = paper_data.write_squad(tmp_path / "squad", "1.1")
    data = {"GLUE": glue, "SQUAD": squad}
    out = run_recipe(tmp_path, "table5_ablations", TASKS="MRPC SQuAD", **data)
    table = table_of(out)
    assert len(table) == 20
    for (_, metric), (result, _) in table.items():
        assert (result is not None) == (metric in ("MRPC", "SQuAD F1"))
    for folder in ("mlm_nsp", "mlm", "causal", "bilstm"):
        for task in ("MRPC", "SQuAD"):
            config = read_json(out / folder / task / "bert_config.json")
            causal = config.get("attention", "bidirectional") == "causal"
            assert causal == (folder in ("causal", "bilstm"))


def test_named_entities(tmp_path, model):
    data = paper_data.write_conll(tmp_path / "conll")
    settings = {"MODEL": model, "CONLL": data, "SEEDS": "2", "RATES": "5e-5",
                "LOWER_CASE": "true"}  # fmt: skip
    features = "embeddings weighted_sum_last_four concat_last_four"
    out = run_recipe(tmp_path, "table7_ner", FEATURES=features, **settings)
    table = table_of(out)
    assert len(table) == 8
    missing = [label for (label, _), (result, _) in table.items() if result is None]
    assert missing == [
        "Second-to-last hidden "
        "layer", "Last hidden layer", "Weighted sum of all layers",
    ]  # fmt: skip
