"""--teacher in run_classifier.py, run_ner.py and run_squad.py."""

import json

import numpy as np
import pytest
import squad_data
from named_texts import VOCABULARY, sentences, write_split
from run_programs import (
    as_flags,
    assert_each_refused,
    assert_refused,
    commands,
    newest,
    read_lines,
    results_of,
    run_main,
    run_mains,
)
from safetensors.numpy import load_file

import bert_tf

CLASSIFIER, NER, SQUAD = (
    f"bert_tf.run_scripts.run_{n}" for n in ("classifier", "ner", "squad")
)
# Weights large enough for outputs that depend on the words.
SIZES = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_attention_heads": 2,
    "max_position_embeddings": 32,
    "type_vocab_size": 2,
    "initializer_range": 0.3,
}


def config(layers=3):
    return bert_tf.BertConfig(
        vocab_size=len(VOCABULARY), num_hidden_layers=layers, **SIZES
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


@pytest.fixture
def folder(tmp_path):
    for name, count in (("train", 32), ("dev", 8)):
        write_split(tmp_path, name, count, ("neg", "pos"))
    texts = sentences(3, 16)
    (tmp_path / "texts.tsv").write_text(
        "\n".join(["sentence", *map(" ".join, texts)]) + "\n"
    )
    (tmp_path / "texts.conll").write_text(
        "\n\n".join("\n".join(words) for words in texts) + "\n"
    )
    return tmp_path


def command(folder, **flags):
    values = {
        "train_file": folder / "train.tsv",
        "dev_file": folder / "dev.tsv",
        "task_name": "custom",
        "data_dir": None,
        "vocab_file": None,
        "bert_config_file": None,
        "max_seq_length": 10,
        "train_batch_size": 8,
        "do_train": True,
        "optimizer": "adamw",
        "num_train_epochs": 2,
        "learning_rate": 1e-3,
        "teacher": folder / "teacher",
        "init_layers": "0,2",
        **flags,
    }
    return commands()(folder, **values)


def weights_of(folder):
    config = newest(folder, "bert_config.json").read_text()
    return load_file(newest(folder, "model.safetensors")), json.loads(config)


def losses_of(folder):
    rows = read_lines(folder / "metrics.jsonl")
    return [row for row in rows if row["kind"] == "train"]


def with_texts(folder, **flags):
    return command(folder, unlabelled_file=folder / "texts.tsv", log_steps=1, **flags)


def test_a_student_is_built_from_layers_and_learns_from_cached_logits(folder):
    write_classifier(folder / "teacher")
    first, resumed, other = run_main(
        CLASSIFIER,
        with_texts(folder, stop_at_step=2),
        with_texts(folder, stop_at_step=4),
        with_texts(folder, distillation_weight=0.5),
    )
    assert first.code == 0, first
    assert "train with the teacher: 48 of 48 records" in first.err
    assert "48 examples, 16 without labels" in first.err
    assert resumed.code == 0 and "computing features" not in resumed.err, resumed
    assert set(losses_of(folder / "out")[0]) >= {"loss", "teacher_loss"}
    assert "accuracy" not in losses_of(folder / "out")[0]
    weights, architecture = weights_of(folder / "out")
    assert architecture["num_hidden_layers"] == 2
    assert not any("layer_2" in name for name in weights)

    # The cache contains the logits of the teacher for all texts of both files.
    loaded = bert_tf.load(folder / "teacher")
    rows = (folder / "train.tsv").read_text().splitlines()[1:]
    rows += (folder / "texts.tsv").read_text().splitlines()[1:]
    inputs = loaded.tokenizer.encode(
        [row.split("\t")[0] for row in rows], seq_length=10
    )
    expected = loaded.model(bert_tf.BertClassifier)(inputs)["logits"].numpy()
    (path,) = (folder / "out/features/train-teacher").glob("*.npy")
    np.testing.assert_allclose(np.load(path)[:, 0], expected, atol=1e-5)
    assert np.ptp(expected) > 0.1

    assert_refused(
        other, "--distillation_weight=0.9", "this run has --distillation_weight=0.5"
    )


@pytest.mark.slow
def test_runs_share_the_cache_and_resume_to_the_same_bits(folder):
    write_classifier(folder / "teacher")
    cache = {"feature_cache_dir": folder / "cache"}
    first, *others = run_main(
        CLASSIFIER,
        with_texts(folder, **cache, do_eval=True),
        with_texts(folder, **cache, output_dir=folder / "stopped", stop_at_step=5),
        with_texts(folder, **cache, output_dir=folder / "stopped"),
    )
    assert first.code == 0 and "computing features" in first.err, first
    assert results_of(folder / "out")["eval_accuracy"] >= 0
    for result in others:
        assert result.code == 0 and "computing features" not in result.err, result
    found = weights_of(folder / "stopped")[0]
    for name, array in weights_of(folder / "out")[0].items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.mark.slow
def test_what_identifies_the_loss_and_the_initial_weights_must_not_change(folder):
    write_classifier(folder / "teacher")
    write_classifier(folder / "second", seed=2)
    changes = [
        {"teacher": folder / "second"},
        {"init_layers": "1,2"},
        {"distillation_temperature": 4},
        {"unlabelled_file": folder / "texts.tsv"},
        {"teacher": None, "init_layers": None},
    ]
    model = {"init_checkpoint": folder / "teacher"}
    first, *others, last = run_main(
        CLASSIFIER,
        command(folder, stop_at_step=2),
        *(command(folder, **each) for each in changes[:-1]),
        command(folder, **changes[-1], **model),
    )
    assert first.code == 0, first
    words = (
        "teacher=",
        "--init_layers=[0, 2]",
        "--distillation_temperature=2",
        "unlabelled_file",
    )
    for result, word in zip(others, words, strict=True):
        assert_refused(result, word)
    assert_refused(last, "num_hidden_layers=2, but this run has num_hidden_layers=3")


@pytest.mark.slow
def test_taggers_and_span_predictors_learn_from_teachers_with_other_heads(folder):
    labels = ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    head = bert_tf.HeadConfig(kind="bilstm", lstm_layers=1, lstm_size=4)
    tagger = bert_tf.BertTagger(config(), num_labels=5, head=head, seed=1)
    write_model(
        folder / "tagger", tagger, labels=labels, task_type="tagging", scheme="iob2"
    )
    write_model(
        folder / "spans", bert_tf.BertSpanPredictor(config(), seed=1), task_type="span"
    )
    write_model(folder / "small", bert_tf.BertEncoder(config(1), seed=3))
    paragraph = squad_data.paragraph_of(
        "ann lives in rome . bob lives in oslo",
        *(
            (f"{n}", "bob in", squad_data.answers_of("bob", start=20))
            for n in range(16)
        ),
    )
    squad_data.write(folder / "train.json", squad_data.data_of(paragraph))
    for question in paragraph["qas"]:
        del question["answers"]
    squad_data.write(folder / "texts.json", squad_data.data_of(paragraph))
    files = {"train_file": folder / "train.conll", "dev_file": folder / "dev.conll"}
    ner, squad = run_mains(
        [
            (
                NER,
                command(
                    folder,
                    **files,
                    task_name=None,
                    do_eval=True,
                    init_layers=None,
                    teacher=folder / "tagger",
                    init_checkpoint=folder / "small",
                    unlabelled_file=folder / "texts.conll",
                    class_weights="balanced",
                ),
            ),
            (
                SQUAD,
                command(
                    folder,
                    task_name=None,
                    dev_file=None,
                    train_file=folder / "train.json",
                    predict_file=folder / "train.json",
                    do_eval=True,
                    doc_stride=4,
                    max_query_length=4,
                    max_seq_length=12,
                    teacher=folder / "spans",
                    init_layers="2",
                    unlabelled_file=folder / "texts.json",
                    output_dir=folder / "answers",
                    log_steps=1,
                ),
            ),
        ]
    )
    assert ner.code == 0 and "16 without labels" in ner.err, ner
    vectors = np.load(folder / "out/features/train-teacher/shard-00000.npy")
    assert vectors.shape[1:] == (1, 5) and len(vectors) > 48 * 3
    assert squad.code == 0 and "16 without labels" in squad.err, squad
    assert np.load(folder / "answers/features/train-teacher/shard-00000.npy").shape[
        1:
    ] == (1, 2)
    # The student differs from the teacher, and comes closer to it.
    losses = [row["teacher_loss"] for row in losses_of(folder / "answers")]
    assert 0 < losses[-1] < losses[0]


@pytest.mark.slow
def test_a_frozen_encoder_with_a_teacher(folder):
    write_classifier(folder / "teacher")
    write_model(folder / "small", bert_tf.BertEncoder(config(1), seed=3))
    (result,) = run_main(
        CLASSIFIER,
        command(folder, approach="features", feature_layers="last", init_layers=None,
                init_checkpoint=folder / "small"),
    )  # fmt: skip
    assert result.code == 0, result
    assert {path.name for path in (folder / "out/features").iterdir()} == {
        "train-teacher", "train-1-mean",
    }  # fmt: skip


def test_bad_input_is_refused_before_anything_is_written(folder):
    write_classifier(folder / "teacher")
    write_classifier(folder / "labels", labels=("neg", "neutral", "pos"))
    write_classifier(folder / "pairs", pair=True)
    write_model(
        folder / "scores",
        bert_tf.BertClassifier(config(), num_labels=1, seed=1),
        labels=[],
        task_type="regression",
    )
    write_model(folder / "encoder", bert_tf.BertEncoder(config(), seed=1))
    write_model(folder / "cased", bert_tf.BertEncoder(config(), seed=1), lower=False)
    other = [*VOCABULARY[:-2], *VOCABULARY[:-3:-1]]
    write_model(
        folder / "other", bert_tf.BertEncoder(config(), seed=1), vocabulary=other
    )
    small = {"init_layers": None, "init_checkpoint": folder / "encoder"}
    none = {"teacher": None, "init_layers": None, "init_checkpoint": folder / "encoder"}
    cases = [
        (
            {"teacher": folder / "labels"},
            "teacher=",
            "has the labels neg, neutral, pos, but",
        ),
        ({"teacher": folder / "pairs"}, "for pairs of texts, not for single texts"),
        (
            {"teacher": folder / "scores"},
            "is a model for regression, not for classification",
        ),
        ({"teacher": folder / "encoder"}, "has no weights for a BertClassifier"),
        ({"teacher": folder / "none"}, "There is no checkpoint"),
        (
            {**small, "init_checkpoint": folder / "cased"},
            "do_lower_case=True, and the model has",
        ),
        (
            {**small, "init_checkpoint": folder / "other"},
            "vocabulary_sha256",
            "the same ids",
        ),
        (
            {"init_layers": "0,3"},
            "--init_layers has the block 3, but",
            "has the blocks 0 to 2",
        ),
        (
            {"init_checkpoint": folder / "encoder"},
            "--init_layers builds",
            "Give one of them",
        ),
        ({"bert_config_file": "tiny"}, "--init_layers builds", "Give one of them"),
        ({"feature_cache_dir": "gs://a/b"}, "must be in a local folder"),
        ({**none, "init_layers": "0,1"}, "--init_layers needs", "--teacher"),
        ({**none, "distillation_weight": 0.5}, "--distillation_weight needs"),
        ({**none, "unlabelled_file": folder / "texts.tsv"}, "--unlabelled_file needs"),
        ({**none, "feature_cache_dir": folder / "cache"}, "--feature_cache_dir"),
        ({**none, "teacher": ""}, "--teacher"),
    ]
    assert_each_refused(CLASSIFIER, command, folder, cases)
    (result,) = run_main(CLASSIFIER, command(folder, head="bilstm"))
    assert (
        result.code == 2
        and "a linear head, and the task has 2 BiLSTM" in result.messages[-1]
    )
    assert result.messages[-1].endswith(
        "with --do_train=True and --init_head=False."
    ), result
    squad = {
        "train_file": folder / "train.json",
        "output_dir": folder / "out",
        "do_train": True,
    }
    (result,) = run_main(
        SQUAD, as_flags({**squad, "feature_cache_dir": folder / "cache"})
    )
    assert_refused(result, "--feature_cache_dir needs", "--teacher")
    (result,) = run_main(
        CLASSIFIER,
        command(folder, output_dir=folder, teacher=folder / "teacher", overwrite=True),
    )
    assert_refused(result, "--overwrite removes the run in", "--teacher=")
    assert not (folder / "out").exists()
