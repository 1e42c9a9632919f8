"""run_ner.py and run_classifier.py with a frozen encoder and with BiLSTM heads."""

import importlib.util
import os
import pathlib

import numpy as np
import pytest
from json_files import read_json
from named_texts import VOCABULARY, sentences, write_split
from run_programs import (
    assert_each_refused,
    assert_refused,
    newest,
    results_of,
    run_lines,
    run_well,
)
from safetensors.numpy import load_file
from tiny_bert import small_config

import bert_tf

NER, CLASSIFIER = "bert_tf.run_scripts.run_ner", "bert_tf.run_scripts.run_classifier"
TRAIN = (
    "--do_train --output_dir=out --max_seq_length=10 --train_batch_size=8 "
    "--optimizer=adamw --num_train_epochs=3 --learning_rate=1e-2"
)
TAGS = f"{TRAIN} --train_file=train.conll --dev_file=dev.conll --do_eval"
TEXTS = f"{TRAIN} --task_name=custom --train_file=train.tsv --dev_file=dev.tsv"
TUNED = "--init_checkpoint=model"
FROZEN = f"{TUNED} --approach=features"
BILSTM = "--head=bilstm --lstm_size=8"
CONFIG = small_config(
    len(VOCABULARY),
    hidden_size=16,
    num_hidden_layers=4,
    max_position_embeddings=32,
    initializer_range=0.2,
)


def write_encoder(folder, seed):
    tokenizer = bert_tf.BertTokenizer(VOCABULARY, do_lower_case=True)
    encoder = bert_tf.BertEncoder(CONFIG, seed=seed)
    bert_tf.save_checkpoint(encoder, tokenizer, folder)
    return encoder


@pytest.fixture(autouse=True)
def folder(here):
    write_encoder("model", 1)
    for name, count in (("train", 60), ("dev", 20)):
        write_split(here, name, count, ("0", "1"))


def weights_of(folder):
    facts = read_json(newest(folder, "weights.json"))
    return load_file(newest(folder, "model.safetensors")), facts


def cached_vectors(folder):
    paths = sorted(pathlib.Path(folder).glob("*.npy"))
    return np.concatenate([np.load(path) for path in paths])


@pytest.mark.slow
def test_only_the_head_of_a_tagger_is_trained_on_the_hidden_states_of_the_encoder():
    command = (
        f"{TAGS} {FROZEN} {BILSTM} --lstm_layers=1 --feature_layers=concat_last_four "
        "--feature_dtype=float32"
    )
    trained, _, other_seed = run_well(
        NER,
        f"{command} --do_predict --predict_file=dev.conll --export_dir=served "
        "--num_train_epochs=30 --eval_steps=50 --learning_rate=2e-2",
        # Without training, the encoder computes the hidden states.
        "--init_checkpoint=out --do_eval --dev_file=dev.conll --output_dir=evaluated",
        f"{command} --seed=2 --nodo_eval --stop_at_step=1 --output_dir=other "
        "--feature_cache_dir=out/features",
    )
    before = load_file("model/model.safetensors")
    weights, facts = weights_of("out")
    assert all(np.array_equal(weights[name], array) for name, array in before.items())
    assert weights.keys() - before.keys() == {
        *(
            f"cls/head_layers/lstm_0/{direction}/{part}"
            for direction in ("forward", "backward")
            for part in ("kernel", "recurrent_kernel", "bias")
        ),
        "cls/tagger/output_weights",
        "cls/tagger/output_bias",
    }
    assert facts["head"] == {"kind": "bilstm", "lstm_layers": 1, "lstm_size": 8,
                             "feature_layers": "concat_last_four"}  # fmt: skip
    (state,) = pathlib.Path("out/checkpoints").glob("*/optimizer.safetensors")
    assert not any(name.startswith("bert/") for name in load_file(state))

    loaded = bert_tf.load("model")
    encoder, tokenizer = loaded.model(bert_tf.BertEncoder), loaded.tokenizer
    expected = []
    for words in sentences(60, 60):
        outputs = encoder(
            tokenizer.encode([" ".join(words)], seq_length=10, trim_to_longest=True)
        )
        expected.append(np.stack(outputs["encoder_outputs"], axis=2)[0])
    found = cached_vectors("out/features/train-1-2-3-4")
    np.testing.assert_allclose(found, np.concatenate(expected), atol=1e-6)

    expected, found = results_of("out"), results_of("evaluated")
    assert expected["eval_f1"] > 60  # the words determine the tags
    assert (expected.pop("global_step"), found.pop("global_step")) == (225, 0)
    assert found == pytest.approx(expected)
    computed = ["computing features" in each.err for each in (trained, other_seed)]
    assert computed == [True, False] and not os.path.exists("other/features")

    # One SavedModel has the encoder and the head.
    assert "Next: python run_scripts/predict.py --model=served " in trained.out
    texts = [" ".join(words) for words in sentences(20, 20)]
    answers = bert_tf.Predictor("served")(texts)
    lines = pathlib.Path("out/predictions.conll").read_text().strip().split("\n\n")
    expected = [[line.split()[-1] for line in block.split("\n")] for block in lines]
    assert [row["tags"] for row in answers] == expected


@pytest.mark.medium
def test_a_linear_classifier_is_trained_on_the_mean_of_each_text():
    run_well(
        CLASSIFIER,
        f"{TEXTS} {FROZEN} --do_eval --feature_layers=weighted_sum_all "
        "--feature_dtype=float32 --num_train_epochs=20",
        f"{TEXTS} {FROZEN} {BILSTM} --output_dir=bilstm",
        f"{TEXTS} {TUNED} {BILSTM} --lstm_layers=1 --output_dir=fine_tuned",
    )
    assert cached_vectors("out/features/train-1-2-3-4-mean").shape == (60, 4, 16)
    shares = weights_of("out")[0]["cls/head_layers/layer_weights"]
    assert shares.shape == (4,) and not np.array_equal(shares, np.full(4, 0.25))
    assert results_of("out")["eval_accuracy"] > 0.7
    # The default of --feature_layers is the best row of the paper.
    assert os.path.isdir("bilstm/features/train-1-2-3-4")
    assert weights_of("bilstm")[1]["head"]["lstm_layers"] == 2
    before = load_file("model/model.safetensors")
    weights, facts = weights_of("fine_tuned")
    assert facts["head"] == {"kind": "bilstm", "lstm_layers": 1, "lstm_size": 8}
    assert not all(
        np.array_equal(weights[name], array) for name, array in before.items()
    )


def test_flags_that_do_not_fit_are_refused():
    random = "--vocab_file=model/vocab.txt --bert_config_file=model/bert_config.json"
    cases = [
        (random, "--approach=features needs --init_checkpoint"),
        (
            f"{TUNED} --layer_decay=0.9",
            "--layer_decay has no effect without --approach=fine_tuning",
        ),
        (f"{TUNED} --lstm_size=8", "--lstm_size has no effect without --head=bilstm"),
        (f"{TUNED} {BILSTM} --lstm_size=7", "--lstm_size must be even"),
    ]
    assert_each_refused(NER, f"{TAGS} --approach=features", cases)


@pytest.mark.medium
def test_changes_are_noticed_when_a_run_continues():
    command = f"{TAGS} {FROZEN} {BILSTM}"
    run_well(NER, f"{command} --stop_at_step=3")
    dtype, approach = run_lines(
        NER,
        f"{command} --feature_dtype=float32 --feature_cache_dir=cache",
        f"{TAGS} {TUNED}",
    )
    message = (
        "with --feature_dtype='float16', but this run has --feature_dtype='float32'"
    )
    assert dtype.code == 2 and message in dtype.messages[-1]
    assert_refused(
        approach, "a run with --approach='features', but this run has no approach"
    )
    assert not os.path.exists("cache")
    write_encoder("model", 2)
    (second,) = run_lines(NER, f"{command} --stop_at_step=3 --overwrite")
    assert second.code == 2 and "encoder_sha256=" in second.messages[-1]


def test_a_saved_head_is_that_of_the_model():
    head = bert_tf.HeadConfig("bilstm", 1, 2)
    model = bert_tf.BertTagger(CONFIG, num_labels=2, head=head)
    tokenizer = bert_tf.BertTokenizer(VOCABULARY, do_lower_case=True)
    facts = {"task_type": "tagging", "labels": ["O", "B-a"], "scheme": "iob2",
             "max_seq_length": 8}  # fmt: skip
    bert_tf.save_checkpoint(model, tokenizer, "a", **facts)
    loaded = bert_tf.load("a")
    assert loaded.model(bert_tf.BertTagger).head_config == head
    # The layers are those of another task.
    assert loaded.model(bert_tf.BertClassifier, num_labels=3).head_layers is None
    convert = "bert_tf.run_scripts.convert_checkpoint"
    run_well(
        convert,
        "--from=a --to=copy",
        "--from=a --to=e --dialect=google --encoder_only",
    )
    assert bert_tf.load("copy").model(bert_tf.BertTagger).head_config == head
    (other,) = run_lines(convert, "--from=a --to=hf --dialect=hugging_face")
    assert other.code == 2
    assert "which only the dialect bert-tf can store" in other.messages[-1]
    (lite,) = run_lines(
        "bert_tf.run_scripts.export_model",
        "--checkpoint=a --export_dir=served --format=tflite",
    )
    if importlib.util.find_spec("ai_edge_litert"):
        assert_refused(lite, "TFLite cannot represent the loops of the LSTM layers")
    assert not os.path.exists("hf") and not os.path.exists("served")
