"""run_embedding.py: training, search, similarity, predictions, and refused input."""

import json
import pathlib

import numpy as np
import pytest
from json_files import read_json
from run_programs import (
    assert_each_refused,
    newest,
    read_lines,
    results_of,
    run_well,
    write_rows,
)
from safetensors.numpy import load_file
from tiny_bert import SPECIAL, write_architecture

MODULE = "bert_tf.run_scripts.run_embedding"
# Word number n of a question belongs to word number n of its answer.
QUESTION, ANSWER = ([f"{letter}{n}" for n in range(8)] for letter in "qa")
VOCABULARY = [*SPECIAL, *QUESTION, *ANSWER]
BASE = (
    "--output_dir=out --vocab_file=vocab.txt --bert_config_file=config.json "
    "--max_seq_length=8 --train_batch_size=16 --num_train_epochs=12 "
    "--learning_rate=1e-2 --optimizer=adamw"
)
PAIRS = (
    f"{BASE} --train_file=train.tsv --data_dir=beir --text_a_column=q --text_b_column=a"
)
SCORED = (
    f"{BASE} --train_file=scored.tsv --dev_file=scored.tsv --test_file=scored.tsv "
    "--text_a_column=q --text_b_column=a --score_column=score --max_score=4"
)


def pairs(seed, count):
    """Yields numbers of words, and the texts with these words."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        numbers = rng.choice(8, 2, replace=False)
        yield (
            numbers,
            *(" ".join(words[n] for n in numbers) for words in (QUESTION, ANSWER)),
        )


@pytest.fixture(autouse=True)
def folder(here):
    sizes = {"max_position_embeddings": 16, "hidden_dropout_prob": 0}
    write_architecture(here, VOCABULARY, 16, **sizes)
    write_rows("train.tsv", "q\ta", *(f"{q}\t{a}" for _, q, a in pairs(0, 160)))

    # The score is the number of common words, times two.
    lists = [[*pairs(seed, 100)] for seed in (1, 2)]
    rows = [
        f"{q}\t{a}\t{2 * len({*first} & {*second})}"
        for (first, q, _), (second, _, a) in zip(*lists, strict=True)
    ]
    write_rows("scored.tsv", "q\ta\tscore", *rows)

    # Search in all pairs of different words.
    beir = pathlib.Path("beir")
    (beir / "qrels").mkdir(parents=True)
    texts = {q: a for _, q, a in pairs(3, 400)}
    queries = [*texts][:20]
    for name, lines in (
        ("corpus", [{"_id": f"d-{q}", "text": a} for q, a in texts.items()]),
        ("queries", [{"_id": f"q-{q}", "text": q} for q in queries]),
    ):
        write_rows(beir / f"{name}.jsonl", *map(json.dumps, lines))
    judged = [f"q-{q}\td-{q}\t1" for q in queries]
    write_rows(beir / "qrels/dev.tsv", "query-id\tcorpus-id\tscore", *judged)


def test_a_run_learns_to_search():
    (done,) = run_well(
        MODULE, f"{PAIRS} --do_train --do_eval --dimensions=8 --eval_steps=60"
    )
    results = results_of("out")
    assert results["eval_recall_at_1"] > 0.6 > results["eval_recall_at_1_baseline"]
    assert results["eval_ndcg_at_10"] > results["eval_ndcg_at_10_baseline"] + 0.3
    assert "before the training" in done.out
    # A sample selects the best weights, and the result is that of all documents.
    saved = read_json("out/best/weights.json")["eval"]
    evaluations = [
        row for row in read_lines("out/metrics.jsonl") if row["kind"] == "eval"
    ]
    assert saved["ndcg_at_10"] == max(row["ndcg_at_10"] for row in evaluations)
    assert saved["recall_at_10"] > 0.9
    assert not [name for name in results if "sample" in name]
    assert read_json("out/results.json")["value"] == results["eval_ndcg_at_10"]

    facts = read_json(newest("out", "weights.json"))
    assert facts["embedding"] == {
        "pooling": "mean", "normalize": True, "max_seq_length": 8, "dimensions": [8],
    }  # fmt: skip
    errors = (
        read_lines("out/errors.jsonl")
        if pathlib.Path("out/errors.jsonl").exists()
        else []
    )
    assert all(row["rank"] != 1 for row in errors)


@pytest.mark.medium
def test_a_run_learns_scores_and_writes_cosines():
    flags = "--prompt_a=q0 --pooling=first"
    run_well(MODULE, f"{SCORED} {flags} --do_train --do_eval --do_predict")
    results = results_of("out")
    assert results["eval_spearman"] > results["eval_spearman_baseline"] + 0.3
    rows = read_lines("out/predictions.jsonl")
    expected = np.array([row["score"] for row in rows])
    cosines = [row["cosine"] for row in rows]
    assert np.corrcoef(expected, cosines)[0, 1] > 0.4
    assert [str(value) for value in cosines] == pathlib.Path(
        "out/test_results.tsv"
    ).read_text().split()
    facts = read_json(newest("out", "weights.json"))
    assert facts["embedding"]["prompts"] == {"query": "q0", "document": ""}

    # A search has no loss of scores.
    search = "--test_file=beir/qrels/dev.tsv --do_predict --init_checkpoint=out"
    (searched,) = run_well(MODULE, f"{SCORED} {search} --output_dir=search")
    assert searched.out.splitlines()[-1].startswith("Next: ")
    text = pathlib.Path("search/test_results.txt").read_text()
    assert "ndcg_at_10" in text and "loss" not in text


@pytest.mark.medium
def test_a_later_evaluation_has_the_loss_and_the_baselines_of_the_run():
    train = f"{PAIRS} --do_train --do_eval --scale=10 --num_train_epochs=1"
    run_well(MODULE, f"{train} --prompt_b=a0, --log_steps=5")
    # The texts of a row have four and six tokens.
    (row, *_) = read_lines("out/metrics.jsonl")
    assert row["tokens_per_sec"] == pytest.approx(
        10 * row["examples_per_sec"], rel=0.01
    )
    results = results_of("out")
    evaluate = "--do_eval --output_dir=out --data_dir=beir --text_a_column=q"
    run_well(MODULE, f"{evaluate} --text_b_column=a --train_batch_size=4")
    assert results_of("out") == results | {"global_step": results["global_step"]}
    # A file of judgements names its folder.
    judged = evaluate.replace("--data_dir=beir", "--dev_file=beir/qrels/dev.tsv")
    run_well(MODULE, f"{judged} --text_b_column=a")
    assert results_of("out") == results | {"global_step": results["global_step"]}
    # The baselines of other data are not known.
    run_well(MODULE, f"{evaluate} --text_b_column=a --dev_file=train.tsv")
    assert not [name for name in results_of("out") if "baseline" in name]


@pytest.mark.slow
def test_a_resumed_run_has_the_same_weights_and_baselines():
    flags = "--num_train_epochs=2 --gradient_accumulation_steps=2"
    train = f"{PAIRS} --do_train --do_eval {flags}"
    run_well(MODULE, train, f"{train} --output_dir=half --stop_at_step=7")
    before = read_json("half/before_training.json")
    run_well(MODULE, f"{train} --output_dir=half")
    assert read_json("half/before_training.json") == before
    found, expected = (
        load_file(newest(name, "model.safetensors")) for name in ("half", "out")
    )
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)
    assert results_of("half") == results_of("out")

    # A new run in an old folder starts from the initial weights.
    run_well(MODULE, f"{train} --output_dir=half --overwrite")
    assert read_json("half/before_training.json") == before
    assert results_of("half") == results_of("out")


@pytest.mark.medium
def test_a_student_learns_the_vectors_of_a_teacher():
    write_rows("texts.tsv", "q", *(text for _, *both in pairs(5, 60) for text in both))
    run_well(MODULE, f"{SCORED} --do_train --do_eval --output_dir=teacher")
    run_well(
        MODULE,
        f"{SCORED} --do_train --do_eval --output_dir=student --teacher=teacher "
        "--distillation_weight=1 --unlabelled_file=texts.tsv --log_steps=1",
    )
    results = results_of("student")
    assert results["eval_spearman"] > results["eval_spearman_baseline"] + 0.1
    losses = [row["teacher_loss"] for row in read_lines("student/metrics.jsonl")]
    assert losses[-1] < losses[0] / 2


def test_wrong_input_is_refused():
    cases = [
        ("--loss=cosent", "loss=cosent needs scores"),
        ("--text_b_column=b", "no column 'b' (--text_b_column)"),
        ("--dimensions=32", "16 values", "dimensions"),
        ("--data_dir=. --do_eval", "There is no file dev"),
        ("--score_column=a", "must differ"),
        ("--eval_fraction=0.1 --do_eval", "beir has the dev split"),
        ("--train_file=scored.tsv --score_column=score", "max_score"),
    ]
    assert_each_refused(MODULE, f"{PAIRS} --do_train", cases)
