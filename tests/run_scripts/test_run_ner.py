"""run_ner.py: training, evaluation, tagged files, other runs, and refused input."""

import json

import numpy as np
import pytest
from reference import conlleval as reference
from run_programs import (
    assert_each_refused,
    assert_refused,
    commands,
    newest,
    read_lines,
    results_of,
    run_main,
)
from tiny_bert import SPECIAL, write_architecture

MODULE = "bert_tf.run_scripts.run_ner"
PEOPLE, CITIES, OTHERS = ["ann", "bob"], ["rome", "oslo"], ["lives", "in", "and", "."]
VOCABULARY = [*SPECIAL, *PEOPLE, *CITIES, *OTHERS, "##s"]
TRAIN = {
    "do_train": True,
    "num_train_epochs": 10,
    "learning_rate": 5e-3,
    "optimizer": "adamw",
    "schedule": "linear",
}


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


@pytest.fixture
def folder(tmp_path):
    write_architecture(tmp_path, VOCABULARY, 16, max_position_embeddings=32)
    for name, count in (("train", 60), ("testa", 15), ("testb", 12)):
        (tmp_path / f"{name}.txt").write_text(lines_of(count, seed=count))
    return tmp_path


command = commands(max_seq_length=10, train_batch_size=8, learning_rate=1e-2)


def test_a_run_is_trained_scored_and_tags_files(folder):
    out = folder / "out"
    (folder / "words.txt").write_text(lines_of(5, 3, with_tags=False, documents=False))
    (folder / "none.txt").write_text("ann x O\nlives x O\n")
    everything = {**TRAIN, "do_eval": True, "do_predict": True, "eval_steps": 10}
    trained, words, dev, none, further = run_main(
        MODULE,
        command(folder, **everything, document_context=True, keep_checkpoints=1),
        # The run gives the model, the vocabulary, the labels and the context.
        [
            f"--init_checkpoint={out}",
            f"--output_dir={folder}/words",
            "--do_predict",
            f"--predict_file={folder}/words.txt",
        ],
        command(
            folder,
            do_predict=True,
            test_file=folder / "testa.txt",
            data_dir=None,
            init_checkpoint=out,
            output_dir=folder / "dev",
        ),
        command(
            folder,
            do_eval=True,
            dev_file=folder / "none.txt",
            data_dir=None,
            init_checkpoint=out,
            output_dir=folder / "none",
        ),
        command(
            folder, do_train=True, init_checkpoint=out, output_dir=folder / "further"
        ),
    )
    assert trained.code == 0, trained
    facts = json.loads(newest(out, "weights.json").read_text())
    assert facts["labels"] == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    wanted = {"task": "ner", "task_type": "tagging", "scheme": "iob2",
              "document_context": True, "max_seq_length": 10}  # fmt: skip
    assert {name: facts[name] for name in wanted} == wanted
    read = [facts[f"{kind}_data"]["read"] for kind in ("train", "dev", "test")]
    assert all("words: column 0 of 3; tags: column 2: LOC " in line for (line,) in read)
    assert f"train ({folder}/train.txt): {read[0][0]}" in trained.err

    found = results_of(out, "test_results.txt")
    counts = reference.of_file(out / "predictions.conll", " ")
    precision, recall, f1 = reference.overall(counts)
    expected = {"precision": precision, "recall": recall, "f1": f1}
    assert {name: found[f"test_{name}"] for name in expected} == pytest.approx(expected)
    assert f1 > 50  # the words determine the tags
    written = (out / "predictions.conll").read_text().split("\n")
    original = (folder / "testb.txt").read_text().split("\n")
    assert [line.rpartition(" ")[0] for line in written] == original
    assert "all " in (out / "test_report.txt").read_text()
    dev_results = results_of(out)
    assert {
        "eval_f1",
        "eval_surface_f1",
        "eval_accuracy",
        "global_step",
    } <= dev_results.keys()
    assert f"ner: f1 {dev_results['eval_f1']:.4f} on the dev split." in trained.out
    result = json.loads((out / "results.json").read_text())
    assert (result["metric"], result["value"]) == ("eval_f1", dev_results["eval_f1"])
    assert result["baseline"] == 0
    assert "evaluating dev" in trained.err  # at --eval_steps
    assert (out / "eval_report.txt").exists()
    rows = read_lines(out / "dev_examples.jsonl")
    assert len(rows) == 15 and rows[0].keys() == {"tokens", "tags"}
    assert {tag for row in rows for tag in row["tags"]} <= set(facts["labels"])

    assert words.code == 0, words
    tagged = (folder / "words/predictions.conll").read_text().split("\n")
    assert [line.split("\t")[0] for line in tagged] == (
        (folder / "words.txt").read_text().split("\n")
    )
    assert {line.split("\t")[1] for line in tagged if line} <= set(facts["labels"])
    assert not (folder / "words/test_results.txt").exists()
    assert dev.code == 0, dev
    again = results_of(folder / "dev", "test_results.txt")
    assert again["test_f1"] == pytest.approx(dev_results["eval_f1"])
    assert f"ner: f1 {again['test_f1']:.4f} on the test split." in dev.out
    assert (
        none.code == 0 and "none.txt has no entity, so f1 is not defined" in none.err
    ), none
    assert "lower learning rate" not in none.err
    # Without document context, the facts of the head are equal.
    assert further.code == 0 and "The head is that of" in further.err, further


def test_mistaken_columns_and_skipped_sentences(folder, test_data):
    """A warning is repeated at the end of the run, and in a run that resumes."""
    cases = test_data / "data/public_cases"
    malformed = {
        "do_train": True,
        "train_file": cases / "most_sentences_malformed.conll",
    }
    numbered = {
        "do_train": True,
        "train_file": cases / "index_and_nested.tsv",
        "train_batch_size": 1,
        "num_train_epochs": 1,
        "max_seq_length": 16,
        "output_dir": folder / "numbered",
    }
    tags = "".join(f"ann {tag}\n\n" for tag in ("B_LOC", "B^LOC", "O", "O"))
    (folder / "some.conll").write_text(tags)
    some = {"do_train": True, "train_file": folder / "some.conll"}
    stopped, allowed, first, again, right, warned = run_main(
        MODULE,
        command(folder, **malformed),
        [
            *command(folder, **malformed, train_batch_size=1),
            "--allow_skipped",
            "--check_only",
        ],
        command(folder, **numbered),
        command(folder, **numbered),
        [
            *command(folder, **numbered, token_column=1, label_column=2),
            "--check_only",
            "--overwrite",
        ],
        command(
            folder,
            **some,
            train_batch_size=1,
            num_train_epochs=1,
            output_dir=folder / "some",
        ),
    )
    assert_refused(stopped, "line 1", "'O^S-PER'", "75.0%", "--allow_skipped")
    assert not (folder / "out").exists()
    assert allowed.code == 0, allowed
    for result in (first, again):
        assert result.code == 0, result
        assert "give its index as token_column" in result.err
    # Before the training and after it; in a run that was finished, only at its end.
    assert [each.err.count("warning: The words of") for each in (first, again)] == [
        2,
        1,
    ]
    assert first.err.rindex("warning: The words") > first.err.index(
        "training: 2 of 2 steps"
    )
    assert right.code == 0 and "LOC 1, ORG 1, PER 2" in right.err, right
    assert "warning: The words" not in right.err
    assert warned.code == 0 and warned.err.count("25.0% of the rows of train") == 2, (
        warned
    )
    assert "some.conll, line 3: the tag 'B^LOC'" in warned.err


def test_bad_input_is_refused_and_leaves_nothing_behind(folder):
    (folder / "words.txt").write_text(lines_of(5, 3, with_tags=False))
    (folder / "predictions.conll").write_text("ann I-PER\n")
    train, predict = {"do_train": True}, {"do_predict": True}
    cases = [
        ({}, "Nothing to do"),
        (
            {**train, "train_file": folder / "words.txt"},
            "words.txt",
            "--label_column=-1",
        ),
        ({**train, "label_column": 7}, "3 columns", "--label_column=7"),
        (predict, "no labels"),
        (
            {
                **train,
                **predict,
                "output_dir": folder,
                "predict_file": folder / "predictions.conll",
            },
            "predictions.conll would be replaced",
        ),
    ]
    assert_each_refused(MODULE, command, folder, cases)
