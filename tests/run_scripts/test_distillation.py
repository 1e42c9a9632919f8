"""--teacher in run_classifier.py, run_ner.py and run_squad.py."""

import json
import os
import pathlib

import numpy as np
import pytest
import squad_data
from golden_checkpoints import assert_same_arrays
from named_texts import VOCABULARY, sentences, write_split
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
from safetensors.numpy import load_file
from tiny_bert import small_config

import bert_tf

CLASSIFIER, NER, SQUAD = (
    f"bert_tf.run_scripts.run_{n}" for n in ("classifier", "ner", "squad")
)
TRAIN = (
    "--do_train --output_dir=out --max_seq_length=10 --train_batch_size=8 "
    "--optimizer=adamw --num_train_epochs=2 --learning_rate=1e-3"
)
BASE = f"{TRAIN} --task_name=custom --train_file=train.tsv --dev_file=dev.tsv"
STUDENT = f"{BASE} --teacher=teacher --init_layers=0,2"
WITH_TEXTS = f"{STUDENT} --unlabelled_file=texts.tsv --log_steps=1"


def config(layers=3):
    """Returns a config with weights large enough for outputs that depend on words."""
    return small_config(
        len(VOCABULARY),
        num_hidden_layers=layers,
        hidden_size=16,
        max_position_embeddings=32,
        initializer_range=0.3,
    )


def write_model(folder, model, lower=True, vocabulary=VOCABULARY, **facts):
    tokenizer = bert_tf.BertTokenizer(vocabulary, do_lower_case=lower)
    bert_tf.save_checkpoint(model, tokenizer, folder, **facts)
    return model, tokenizer


def write_classifier(folder, labels=("neg", "pos"), pair=False, seed=1):
    model = bert_tf.BertClassifier(config(), num_labels=len(labels), seed=seed)
    write_model(
        folder, model, labels=list(labels), pair=pair, task_type="classification"
    )


@pytest.fixture(autouse=True)
def folder(here):
    for name, count in (("train", 32), ("dev", 8)):
        write_split(here, name, count, ("neg", "pos"))
    texts = sentences(3, 16)
    write_rows("texts.tsv", "sentence", *map(" ".join, texts))
    write_rows("texts.conll", "\n\n".join(map("\n".join, texts)))
    write_classifier("teacher")


def weights_of(folder):
    config = newest(folder, "bert_config.json").read_text()
    return load_file(newest(folder, "model.safetensors")), json.loads(config)


def losses_of(folder):
    rows = read_lines(f"{folder}/metrics.jsonl")
    return [row for row in rows if row["kind"] == "train"]


def test_a_student_is_built_from_layers_and_learns_from_cached_logits():
    first, resumed = run_well(
        CLASSIFIER, f"{WITH_TEXTS} --stop_at_step=2", f"{WITH_TEXTS} --stop_at_step=4"
    )
    assert "train with the teacher: 48 of 48 records" in first.err
    assert "48 examples, 16 without labels" in first.err
    assert "computing features" not in resumed.err
    assert set(losses_of("out")[0]) >= {"loss", "teacher_loss"}
    assert "accuracy" not in losses_of("out")[0]
    weights, architecture = weights_of("out")
    assert architecture["num_hidden_layers"] == 2
    assert not any("layer_2" in name for name in weights)

    # The cache contains the logits of the teacher for all texts of both files.
    loaded = bert_tf.load("teacher")
    rows = pathlib.Path("train.tsv").read_text().splitlines()[1:]
    rows += pathlib.Path("texts.tsv").read_text().splitlines()[1:]
    texts = [row.split("\t")[0] for row in rows]
    inputs = loaded.tokenizer.encode(texts, seq_length=10)
    expected = loaded.model(bert_tf.BertClassifier)(inputs)["logits"].numpy()
    (path,) = pathlib.Path("out/features/train-teacher").glob("*.npy")
    np.testing.assert_allclose(np.load(path)[:, 0], expected, atol=1e-5)
    assert np.ptp(expected) > 0.1

    (other,) = run_lines(CLASSIFIER, f"{WITH_TEXTS} --distillation_weight=0.5")
    assert_refused(
        other, "--distillation_weight=0.9", "this run has --distillation_weight=0.5"
    )


@pytest.mark.slow
def test_runs_share_the_cache_and_resume_to_the_same_bits():
    command = f"{WITH_TEXTS} --feature_cache_dir=cache"
    first, *others = run_well(
        CLASSIFIER,
        f"{command} --do_eval",
        f"{command} --output_dir=stopped --stop_at_step=5",
        f"{command} --output_dir=stopped",
    )
    assert "computing features" in first.err
    assert results_of("out")["eval_accuracy"] >= 0
    assert not any("computing features" in result.err for result in others)
    assert_same_arrays(weights_of("stopped")[0], weights_of("out")[0])


@pytest.mark.slow
def test_what_identifies_the_loss_and_the_initial_weights_must_not_change():
    write_classifier("second", seed=2)
    run_well(CLASSIFIER, f"{STUDENT} --stop_at_step=2")
    cases = [
        (f"{STUDENT} --teacher=second", "teacher="),
        (f"{STUDENT} --init_layers=1,2", "--init_layers=[0, 2]"),
        (f"{STUDENT} --distillation_temperature=4", "--distillation_temperature=2"),
        (f"{STUDENT} --unlabelled_file=texts.tsv", "unlabelled_file"),
        (
            f"{BASE} --init_checkpoint=teacher",
            "num_hidden_layers=2, but this run has num_hidden_layers=3",
        ),
    ]
    assert_each_refused(CLASSIFIER, "", cases)


@pytest.mark.slow
def test_taggers_and_span_predictors_learn_from_teachers_with_other_heads():
    labels = ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    head = bert_tf.HeadConfig(kind="bilstm", lstm_layers=1, lstm_size=4)
    tagger = bert_tf.BertTagger(config(), num_labels=5, head=head, seed=1)
    write_model("tagger", tagger, labels=labels, task_type="tagging", scheme="iob2")
    write_model("spans", bert_tf.BertSpanPredictor(config(), seed=1), task_type="span")
    write_model("small", bert_tf.BertEncoder(config(1), seed=3))
    paragraph = squad_data.paragraph_of(
        "ann lives in rome . bob lives in oslo",
        *(
            (f"{n}", "bob in", squad_data.answers_of("bob", start=20))
            for n in range(16)
        ),
    )
    squad_data.write(pathlib.Path("train.json"), squad_data.data_of(paragraph))
    for question in paragraph["qas"]:
        del question["answers"]
    squad_data.write(pathlib.Path("texts.json"), squad_data.data_of(paragraph))
    results = [
        *run_well(
            NER,
            f"{TRAIN} --train_file=train.conll --dev_file=dev.conll --do_eval "
            "--teacher=tagger --init_checkpoint=small --unlabelled_file=texts.conll "
            "--class_weights=balanced",
        ),
        *run_well(
            SQUAD,
            f"{TRAIN} --train_file=train.json --predict_file=train.json --do_eval "
            "--doc_stride=4 --max_query_length=4 --max_seq_length=12 --teacher=spans "
            "--init_layers=2 --unlabelled_file=texts.json --output_dir=answers "
            "--log_steps=1",
        ),
    ]
    assert all("16 without labels" in result.err for result in results)
    vectors = np.load("out/features/train-teacher/shard-00000.npy")
    assert vectors.shape[1:] == (1, 5) and len(vectors) > 48 * 3
    vectors = np.load("answers/features/train-teacher/shard-00000.npy")
    assert vectors.shape[1:] == (1, 2)
    # The student differs from the teacher, and comes closer to it.
    losses = [row["teacher_loss"] for row in losses_of("answers")]
    assert 0 < losses[-1] < losses[0]


@pytest.mark.slow
def test_a_frozen_encoder_with_a_teacher():
    write_model("small", bert_tf.BertEncoder(config(1), seed=3))
    run_well(
        CLASSIFIER,
        f"{BASE} --teacher=teacher --approach=features --feature_layers=last "
        "--init_checkpoint=small",
    )
    assert {*os.listdir("out/features")} == {"train-teacher", "train-1-mean"}


@pytest.mark.medium
def test_bad_input_is_refused_before_anything_is_written():
    write_classifier("labels", labels=("neg", "neutral", "pos"))
    write_classifier("pairs", pair=True)
    scores = bert_tf.BertClassifier(config(), num_labels=1, seed=1)
    write_model("scores", scores, labels=[], task_type="regression")
    encoder = bert_tf.BertEncoder(config(), seed=1)
    write_model("encoder", encoder)
    write_model("cased", encoder, lower=False)
    write_model("other", encoder, vocabulary=[*VOCABULARY[:-2], *VOCABULARY[:-3:-1]])
    teacher, layers = "--teacher=teacher", "--init_layers=0,2"
    alone = "--init_checkpoint=encoder"
    cases = [
        (f"{layers} --teacher=labels", "teacher=", "has the labels neg, neutral, pos,"),
        (f"{layers} --teacher=pairs", "for pairs of texts, not for single texts"),
        (
            f"{layers} --teacher=scores",
            "is a model for regression, not for classification",
        ),
        (f"{layers} --teacher=encoder", "has no weights for a BertClassifier"),
        (f"{layers} --teacher=none", "There is no checkpoint"),
        (
            f"{teacher} --init_checkpoint=cased",
            "do_lower_case=True, and the model has",
        ),
        (
            f"{teacher} --init_checkpoint=other",
            "vocabulary_sha256",
            "the same ids",
        ),
        (
            f"{teacher} --init_layers=0,3",
            "--init_layers has the block 3, but",
            "has the blocks 0 to 2",
        ),
        (f"{teacher} {layers} {alone}", "--init_layers builds", "Give one of them"),
        (
            f"{teacher} {layers} --bert_config_file=tiny",
            "--init_layers builds",
            "Give one of them",
        ),
        (
            f"{teacher} {layers} --feature_cache_dir=gs://a/b",
            "must be in a local folder",
        ),
        (f"{alone} --init_layers=0,1", "--init_layers needs", "--teacher"),
        (f"{alone} --distillation_weight=0.5", "--distillation_weight needs"),
        (f"{alone} --unlabelled_file=texts.tsv", "--unlabelled_file needs"),
        (f"{alone} --feature_cache_dir=cache", "--feature_cache_dir"),
        (f"{alone} --teacher=", "--teacher"),
        (
            f"{teacher} {layers} --output_dir=. --overwrite",
            "--overwrite removes the run in",
            "--teacher=",
        ),
    ]
    assert_each_refused(CLASSIFIER, BASE, cases)
    (result,) = run_lines(CLASSIFIER, f"{STUDENT} --head=bilstm")
    assert result.code == 2
    assert "a linear head, and the task has 2 BiLSTM" in result.messages[-1]
    assert result.messages[-1].endswith(" with --do_train=True and --init_head=False.")
    (result,) = run_lines(
        SQUAD, f"{TRAIN} --train_file=train.json --feature_cache_dir=cache"
    )
    assert_refused(result, "--feature_cache_dir needs", "--teacher")
