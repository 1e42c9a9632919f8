"""run_ner.py: training, evaluation, tagged files, other runs, and refused input."""

import os
import pathlib

import numpy as np
import pytest
from json_files import read_json
from reference import conlleval as reference
from run_programs import (
    assert_each_refused,
    assert_refused,
    newest,
    read_lines,
    results_of,
    run_lines,
    run_well,
    write_rows,
)
from tiny_bert import SPECIAL, write_architecture

MODULE = "bert_tf.run_scripts.run_ner"
PEOPLE, CITIES, OTHERS = ["ann", "bob"], ["rome", "oslo"], ["lives", "in", "and", "."]
VOCABULARY = [*SPECIAL, *PEOPLE, *CITIES, *OTHERS, "##s"]
BASE = (
    "--data_dir=. --output_dir=out --vocab_file=vocab.txt "
    "--bert_config_file=config.json --max_seq_length=10 --train_batch_size=8 "
    "--learning_rate=1e-2"
)


def random_sentence(rng):
    """Returns pairs of a word and its tag in IOB1; names of two words are people."""
    found = []
    for _ in range(int(rng.integers(1, 7))):
        if rng.random() < 0.5:
            names = PEOPLE if rng.random() < 0.5 else CITIES
            tag = "I-PER" if names is PEOPLE else "I-LOC"
            found.append((str(rng.choice(names)), tag))
            found.append((str(rng.choice(OTHERS)), "O"))
        else:
            found.append((str(rng.choice(OTHERS)) + "s" * int(rng.integers(2)), "O"))
    return found


def lines_of(count, seed, with_tags=True, separator=" ", documents=True):
    rng, lines = np.random.default_rng(seed), []
    for number in range(count):
        if documents and number % 4 == 0:
            lines += [separator.join(["-DOCSTART-", "x", "O"]), ""]
        for word, tag in random_sentence(rng):
            lines.append(separator.join([word, "x", tag]) if with_tags else word)
        lines.append("")
    return "\n".join(lines)


@pytest.fixture(autouse=True)
def folder(here):
    write_architecture(here, VOCABULARY, 16, max_position_embeddings=32)
    for name, count in (("train", 60), ("testa", 15), ("testb", 12)):
        pathlib.Path(f"{name}.txt").write_text(lines_of(count, seed=count))
    words = lines_of(5, 3, with_tags=False, documents=False)
    pathlib.Path("words.txt").write_text(words)


def test_a_run_is_trained_scored_and_tags_files():
    write_rows("none.txt", "ann x O", "lives x O")
    trained, _, dev, none, further = run_well(
        MODULE,
        f"{BASE} --do_train --do_eval --do_predict --num_train_epochs=10 "
        "--learning_rate=5e-3 --optimizer=adamw --schedule=linear --eval_steps=10 "
        "--document_context --keep_checkpoints=1",
        # The run gives the model, the vocabulary, the labels and the context.
        "--init_checkpoint=out --output_dir=words --do_predict "
        "--predict_file=words.txt",
        "--init_checkpoint=out --output_dir=dev --do_predict --test_file=testa.txt",
        "--init_checkpoint=out --output_dir=none --do_eval --dev_file=none.txt",
        f"{BASE} --do_train --init_checkpoint=out --output_dir=new --check_only",
    )
    facts = read_json(newest("out", "weights.json"))
    assert facts["labels"] == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    wanted = {"task": "ner", "task_type": "tagging", "scheme": "iob2",
              "document_context": True, "max_seq_length": 10}  # fmt: skip
    assert wanted.items() <= facts.items()
    notes = [facts[f"{kind}_data"]["read"] for kind in ("train", "dev", "test")]
    assert all("words: column 0 of 3; tags: column 2: LOC " in n for (n,) in notes)
    assert f"train (./train.txt): {notes[0][0]}" in trained.err

    found = results_of("out", "test_results.txt")
    counts = reference.of_file(pathlib.Path("out/predictions.conll"), " ")
    precision, recall, f1 = reference.overall(counts)
    expected = {"precision": precision, "recall": recall, "f1": f1}
    assert {name: found[f"test_{name}"] for name in expected} == pytest.approx(expected)
    assert f1 > 50  # the words determine the tags
    written = pathlib.Path("out/predictions.conll").read_text().split("\n")
    original = pathlib.Path("testb.txt").read_text().split("\n")
    assert [line.rpartition(" ")[0] for line in written] == original
    assert "all " in pathlib.Path("out/test_report.txt").read_text()
    results = results_of("out")
    names = "eval_f1 eval_surface_f1 eval_accuracy global_step"
    assert {*names.split()} <= results.keys()
    assert f"ner: f1 {results['eval_f1']:.4f} on the dev split." in trained.out
    result = read_json("out/results.json")
    assert (result["metric"], result["value"]) == ("eval_f1", results["eval_f1"])
    assert result["baseline"] == 0
    assert "evaluating dev" in trained.err  # at --eval_steps
    assert os.path.exists("out/eval_report.txt")
    rows = read_lines("out/dev_examples.jsonl")
    assert len(rows) == 15 and rows[0].keys() == {"tokens", "tags"}
    assert {tag for row in rows for tag in row["tags"]} <= set(facts["labels"])

    tagged = pathlib.Path("words/predictions.conll").read_text().split("\n")
    words = pathlib.Path("words.txt").read_text().split("\n")
    assert [line.split("\t")[0] for line in tagged] == words
    assert {line.split("\t")[1] for line in tagged if line} <= set(facts["labels"])
    assert not os.path.exists("words/test_results.txt")
    again = results_of("dev", "test_results.txt")["test_f1"]
    assert again == pytest.approx(results["eval_f1"])
    assert f"ner: f1 {again:.4f} on the test split." in dev.out
    assert "none.txt has no entity, so f1 is not defined" in none.err
    assert "lower learning rate" not in none.err
    # Without document context, the facts of the head are equal.
    assert "The head is that of" in further.err


@pytest.mark.medium
def test_mistaken_columns_and_skipped_sentences(test_data):
    """A warning is repeated at the end of the run, and in a run that resumes."""
    cases = test_data / "data/public_cases"
    train = f"{BASE} --do_train --train_batch_size=1 --num_train_epochs=1"
    malformed = f"--train_file={cases}/most_sentences_malformed.conll"
    numbered = (
        f"{train} --train_file={cases}/index_and_nested.tsv --max_seq_length=16 "
        "--output_dir=numbered"
    )
    tags = [f"ann {tag}\n" for tag in ("B_LOC", "B^LOC", "O", "O")]
    write_rows("some.conll", *tags)
    (stopped,) = run_lines(MODULE, f"{BASE} --do_train {malformed}")
    assert_refused(stopped, "line 1", "'O^S-PER'", "75.0%", "--allow_skipped")
    assert not os.path.exists("out")
    _, first, again, right, warned = run_well(
        MODULE,
        f"{train} {malformed} --allow_skipped --check_only",
        numbered,
        numbered,
        f"{numbered} --token_column=1 --label_column=2 --check_only --overwrite",
        f"{train} --train_file=some.conll --output_dir=some --check_only",
    )
    # Before the training and after it; in a run that was finished, only at its end.
    for result, count in ((first, 2), (again, 1)):
        assert "give its index as token_column" in result.err
        assert result.err.count("warning: The words of") == count
    assert first.err.rindex("warning: The words") > first.err.index(
        "training: 2 of 2 steps"
    )
    assert "LOC 1, ORG 1, PER 2" in right.err
    assert "warning: The words" not in right.err
    assert "25.0% of the rows of train" in warned.err
    assert "some.conll, line 3: the tag 'B^LOC'" in warned.err


def test_bad_input_is_refused_and_leaves_nothing_behind():
    write_rows("predictions.conll", "ann I-PER")
    cases = [
        ("", "Nothing to do"),
        ("--do_train --train_file=words.txt", "words.txt", "--label_column=-1"),
        ("--do_train --label_column=7", "3 columns", "--label_column=7"),
        ("--do_predict", "no labels"),
        (
            "--do_train --do_predict --output_dir=. --predict_file=predictions.conll",
            "predictions.conll would be replaced",
        ),
    ]
    assert_each_refused(MODULE, BASE, cases)
