"""run_ner.py, run_classifier.py and run_squad.py with a frozen encoder and with BiLSTM heads."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from run_programs import assert_refused, run_main, run_mains
from safetensors.numpy import load_file

import bert_tf

NER, CLASSIFIER = "bert_tf.run_scripts.run_ner", "bert_tf.run_scripts.run_classifier"
SQUAD = "bert_tf.run_scripts.run_squad"
WORDS = ["ann", "bob", "rome", "oslo", "lives", "in", "."]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
TAGS = {"ann": "B-PER", "bob": "B-PER", "rome": "B-LOC", "oslo": "B-LOC"}
CONFIG = bert_tf.BertConfig(
    vocab_size=len(VOCABULARY), hidden_size=16, num_hidden_layers=4, num_attention_heads=2,
    intermediate_size=16, max_position_embeddings=32, type_vocab_size=2, initializer_range=0.2,
)  # fmt: skip
BILSTM = {"head": "bilstm", "lstm_size": 8}


def write_encoder(folder, seed):
    tokenizer = bert_tf.BertTokenizer(VOCABULARY, do_lower_case=True)
    encoder = bert_tf.BertEncoder(CONFIG, seed=seed)
    bert_tf.save_checkpoint(encoder, tokenizer, folder)
    return encoder


def sentences(seed, count):
    rng = np.random.default_rng(seed)
    return [rng.choice(WORDS, rng.integers(1, 9)).tolist() for _ in range(count)]


@pytest.fixture
def folder(tmp_path):
    write_encoder(tmp_path / "model", 1)
    for name, count in (("train", 60), ("dev", 20)):
        found = sentences(count, count)
        tagged = ("\n".join(f"{w} {TAGS.get(w, 'O')}" for w in words) for words in found)
        (tmp_path / f"{name}.conll").write_text("\n\n".join(tagged) + "\n")
        rows = [f"{' '.join(words)}\t{int('ann' in words)}" for words in found]
        (tmp_path / f"{name}.tsv").write_text("\n".join(["sentence\tlabel", *rows]) + "\n")
    return tmp_path


def command(folder, **flags):
    values = {
        "init_checkpoint": folder / "model", "output_dir": folder / "out", "max_seq_length": 10,
        "train_batch_size": 8, "do_train": True, "do_eval": True, "optimizer": "adamw",
        "num_train_epochs": 3, "learning_rate": 1e-2, **flags,
    }  # fmt: skip
    return [f"--{name}={value}" for name, value in values.items() if value is not None]


def ner(folder, **flags):
    ending = {"train_file": folder / "train.conll", "dev_file": folder / "dev.conll"}
    return command(folder, **{**ending, "approach": "features", **flags})


def classifier(folder, **flags):
    files = {"train_file": folder / "train.tsv", "dev_file": folder / "dev.tsv"}
    return command(folder, task_name="custom", **{**files, "approach": "features", **flags})


def results_of(folder):
    lines = (folder / "eval_results.txt").read_text().splitlines()
    return {name: float(value) for name, value in (line.split(" = ") for line in lines)}


def weights_of(folder):
    path = max((folder / "checkpoints").glob("*/model.safetensors"))
    return load_file(path), json.loads((path.parent / "weights.json").read_text())


def cached_vectors(folder):
    return np.concatenate([np.load(path) for path in sorted(folder.glob("*.npy"))])


def test_only_the_head_of_a_tagger_is_trained_on_the_hidden_states_of_the_encoder(folder):
    flags = {**BILSTM, "feature_layers": "concat_last_four", "feature_dtype": "float32"}
    trained, evaluated, other_seed = run_main(
        NER,
        ner(folder, **flags, num_train_epochs=30, eval_steps=50, learning_rate=2e-2),
        # Without training, the encoder computes the hidden states.
        [f"--init_checkpoint={folder}/out", "--do_eval=true", f"--dev_file={folder}/dev.conll",
         f"--output_dir={folder}/evaluated"],
        ner(folder, **flags, seed=2, output_dir=folder / "other",
            feature_cache_dir=folder / "out/features"),
    )  # fmt: skip
    assert trained.code == 0, trained
    before = load_file(folder / "model/model.safetensors")
    weights, facts = weights_of(folder / "out")
    assert all(np.array_equal(weights[name], array) for name, array in before.items())
    assert weights.keys() - before.keys() == {
        *(f"cls/head_layers/lstm_{layer}/{direction}/{part}" for layer in (0, 1)
          for direction in ("forward", "backward")
          for part in ("kernel", "recurrent_kernel", "bias")),
        "cls/tagger/output_weights", "cls/tagger/output_bias",
    }  # fmt: skip
    assert facts["head"] == {
        "kind": "bilstm", "lstm_layers": 2, "lstm_size": 8, "feature_layers": "concat_last_four",
    }  # fmt: skip
    (state,) = (folder / "out/checkpoints").glob("*/optimizer.safetensors")
    assert not any(name.startswith("bert/") for name in load_file(state))

    encoder = bert_tf.load(folder / "model").model(bert_tf.BertEncoder)
    tokenizer = bert_tf.load(folder / "model").tokenizer
    expected = []
    for words in sentences(60, 60):
        outputs = encoder(tokenizer.encode([" ".join(words)], seq_length=10, trim_to_longest=True))
        expected.append(np.stack(outputs["encoder_outputs"], axis=2)[0])
    found = cached_vectors(folder / "out/features/train-1-2-3-4")
    np.testing.assert_allclose(found, np.concatenate(expected), atol=1e-6)

    assert results_of(folder / "out")["eval_f1"] > 60  # the words determine the tags
    assert evaluated.code == 0, evaluated
    expected, found = results_of(folder / "out"), results_of(folder / "evaluated")
    assert (expected.pop("global_step"), found.pop("global_step")) == (225, 0)
    assert found == pytest.approx(expected)
    assert other_seed.code == 0, other_seed
    assert "computing features" not in other_seed.err and "computing features" in trained.err
    assert not (folder / "other/features").exists()


def test_a_linear_classifier_is_trained_on_the_mean_of_each_text(folder):
    flags = {"feature_layers": "weighted_sum_all", "feature_dtype": "float32"}
    results = run_main(
        CLASSIFIER,
        classifier(folder, **flags, num_train_epochs=20),
        classifier(folder, **BILSTM, output_dir=folder / "bilstm"),
        classifier(folder, **BILSTM, approach="fine_tuning", output_dir=folder / "fine_tuned"),
    )
    assert [each.code for each in results] == [0, 0, 0], results
    found = cached_vectors(folder / "out/features/train-1-2-3-4-mean")
    assert found.shape == (60, 4, 16)
    weights, _ = weights_of(folder / "out")
    assert weights["cls/head_layers/layer_weights"].shape == (4,)
    assert not np.array_equal(weights["cls/head_layers/layer_weights"], np.full(4, 0.25))
    assert results_of(folder / "out")["eval_accuracy"] > 0.7
    # The default of --feature_layers is the best row of the paper.
    assert (folder / "bilstm/features/dev-1-2-3-4").is_dir()
    before = load_file(folder / "model/model.safetensors")
    weights, facts = weights_of(folder / "fine_tuned")
    assert facts["head"] == {"kind": "bilstm", "lstm_layers": 2, "lstm_size": 8}
    assert not all(np.array_equal(weights[name], array) for name, array in before.items())


@pytest.mark.slow
def test_a_bilstm_reads_answers_of_a_left_to_right_model(folder):
    checkpoint = bert_tf.load(folder / "model")
    config = dataclasses.replace(checkpoint.config, attention="causal")
    encoder = bert_tf.BertEncoder(config, seed=0)
    bert_tf.save_checkpoint(encoder, checkpoint.tokenizer, folder / "model")
    question = {"id": "1", "question": "ann", "answers": [{"text": "rome", "answer_start": 13}]}
    paragraph = {"context": "ann lives in rome .", "qas": [question]}
    data = {"version": "1.1", "data": [{"title": "a", "paragraphs": [paragraph]}]}
    (folder / "squad.json").write_text(json.dumps(data))
    flags = {
        **BILSTM, "train_file": folder / "squad.json", "predict_file": folder / "squad.json",
        "max_query_length": 3, "doc_stride": 4, "train_batch_size": 1, "num_train_epochs": 30,
        "max_seq_length": 12,
    }  # fmt: skip
    (result,) = run_main(SQUAD, command(folder, **flags))
    assert result.code == 0, result
    assert results_of(folder / "out")["eval_f1"] == 100


@pytest.mark.slow
def test_an_interrupted_run_gives_the_weights_of_an_uninterrupted_one(folder):
    flags = {**BILSTM, "save_checkpoints_steps": 5, "ema_decay": 0.9}
    results = run_main(
        NER,
        ner(folder, **flags),
        ner(folder, **flags, output_dir=folder / "stopped", stop_at_step=7),
        ner(folder, **flags, output_dir=folder / "stopped"),
    )
    assert [each.code for each in results] == [0, 0, 0], results
    assert "Continuing from step 7" in results[2].err
    expected, found = weights_of(folder / "out")[0], weights_of(folder / "stopped")[0]
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, atol=1e-6)


@pytest.mark.parametrize("kind", ["classifier", pytest.param("tagger", marks=pytest.mark.slow)])
def test_one_saved_model_has_the_encoder_and_the_head(folder, kind):
    flags = {**BILSTM, "feature_dtype": "float32", "export_dir": folder / "served"}
    module, flags = (
        (NER, ner(folder, **flags, do_predict=True, predict_file=folder / "dev.conll"))
        if kind == "tagger"
        else (CLASSIFIER, classifier(folder, **flags))
    )
    (result,) = run_mains([(module, flags)])
    assert result.code == 0, result
    (narrow,) = run_main(
        "bert_tf.run_scripts.export_model",
        [f"--checkpoint={folder}/out", f"--export_dir={folder}/narrow", "--precision=bfloat16"],
    )
    assert narrow.code == 0, narrow
    predictor = bert_tf.Predictor(str(folder / "served"))
    found = predictor([" ".join(words) for words in sentences(20, 20)])
    if kind == "tagger":
        lines = (folder / "out/predictions.conll").read_text().strip().split("\n\n")
        expected = [[line.split()[-1] for line in block.split("\n")] for block in lines]
        assert [row["tags"] for row in found] == expected
    else:
        correct = [str(int("ann" in words)) for words in sentences(20, 20)]
        accuracy = np.mean([row["label"] == each for row, each in zip(found, correct, strict=True)])
        assert accuracy == pytest.approx(results_of(folder / "out")["eval_accuracy"])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"init_checkpoint": None}, "--approach=features needs --init_checkpoint"),
        ({"approach": "fine_tuning", "feature_dtype": "float32"},
         "--feature_dtype has no effect without --approach=features"),
        ({"layer_decay": 0.9}, "--layer_decay has no effect without --approach=fine_tuning"),
        ({"lstm_size": 8}, "--lstm_size has no effect without --head=bilstm"),
        ({**BILSTM, "lstm_size": 7}, "--lstm_size must be even"),
        ({"feature_cache_dir": "gs://a/b"}, "must be in a local folder"),
    ],
)  # fmt: skip
def test_flags_that_do_not_fit_are_refused(folder, flags, message):
    needed = {"vocab_file": folder / "model/vocab.txt"}
    needed["bert_config_file"] = folder / "model/bert_config.json"
    (result,) = run_main(NER, ner(folder, **{**needed, **flags}))
    assert_refused(result, message)
    assert not (folder / "out").exists()


def test_the_cache_of_another_checkpoint_is_refused(folder):
    write_encoder(folder / "other", 2)
    cache = {**BILSTM, "feature_cache_dir": folder / "cache"}
    first, other, longer, damaged = run_mains(
        [
            (NER, ner(folder, **cache)),
            (NER, ner(folder, **cache, init_checkpoint=folder / "other", output_dir=folder / "b")),
            (NER, ner(folder, **cache, max_seq_length=12, output_dir=folder / "c")),
            (NER, ner(folder, **cache, feature_dtype="float32", output_dir=folder / "d")),
        ]
    )
    assert first.code == 0, first
    assert "encoder_sha256=" in other.messages[-1] and other.code == 2
    assert "--max_seq_length=10, but this run has --max_seq_length=12" in longer.messages[-1]
    assert "dtype='float16', but this run has dtype='float32'" in damaged.messages[-1]


def test_changes_are_noticed_when_a_run_continues(folder):
    flags = {**BILSTM, "stop_at_step": 3}
    evaluation = [f"--output_dir={folder}/out", "--do_eval=true", f"--dev_file={folder}/dev.conll"]
    first, dtype, approach, other_head = run_main(
        NER,
        ner(folder, **flags),
        ner(folder, **BILSTM, feature_dtype="float32", feature_cache_dir=folder / "cache"),
        ner(folder, approach="fine_tuning"),
        [*evaluation, "--feature_layers=last"],
    )
    assert first.code == 0, first
    assert dtype.code == 2
    message = "a run with --feature_dtype='float16', but this run has --feature_dtype='float32'"
    assert message in dtype.messages[-1]
    assert_refused(approach, "a run with approach='features', but this run has no approach")
    assert_refused(
        other_head,
        "the trained model has 2 BiLSTM layers of size 8 with --feature_layers=concat_last_four",
    )
    assert not (folder / "cache").exists()
    write_encoder(folder / "model", 2)
    (second,) = run_main(NER, ner(folder, **{**flags, "overwrite": True}))
    assert second.code == 2 and "encoder_sha256=" in second.messages[-1]


def test_a_finished_run_does_not_need_the_train_split(folder):
    (first,) = run_main(NER, ner(folder, **BILSTM))
    assert first.code == 0, first
    shutil.rmtree(folder / "out/features")
    (again,) = run_main(NER, ner(folder, **BILSTM))
    assert again.code == 0, again
    assert [path.name for path in (folder / "out/features").iterdir()] == ["dev-1-2-3-4"]


def test_saved_heads_are_those_of_the_model(tmp_path):
    tokenizer = bert_tf.BertTokenizer(VOCABULARY, do_lower_case=True)
    head = bert_tf.HeadConfig("bilstm", 1, 2)
    bert_tf.save_checkpoint(
        bert_tf.BertTagger(CONFIG, num_labels=2, head=head), tokenizer, tmp_path / "a",
        labels=["O", "B-a"],
    )  # fmt: skip
    tagger = bert_tf.load(tmp_path / "a")
    assert tagger.model(bert_tf.BertTagger).head_config == head
    # The layers are those of another task.
    assert tagger.model(bert_tf.BertClassifier, num_labels=3).head_layers is None
    assert tagger.model(bert_tf.BertSpanPredictor).head_layers is None
    facts = {"labels": ["O", "B-a"], "head": tagger.facts["head"]}
    plain = bert_tf.BertTagger(CONFIG, num_labels=2)
    bert_tf.save_checkpoint(plain, tokenizer, tmp_path / "b", **facts)
    assert bert_tf.load(tmp_path / "b").model(bert_tf.BertTagger).head_layers is None


def test_tflite_files_of_lstm_layers_are_refused(folder):
    pytest.importorskip("ai_edge_litert", reason="needs ai-edge-litert")
    model = bert_tf.BertTagger(
        CONFIG, num_labels=2, head=bert_tf.HeadConfig("bilstm", 1, 2), seed=1
    )
    facts = {"task_type": "tagging", "labels": ["O", "B-a"], "scheme": "iob2", "max_seq_length": 8}
    tokenizer = bert_tf.BertTokenizer(VOCABULARY, do_lower_case=True)
    bert_tf.save_checkpoint(model, tokenizer, folder / "tagger", **facts)
    (refused,) = run_main(
        "bert_tf.run_scripts.export_model",
        [f"--checkpoint={folder}/tagger", f"--export_dir={folder}/served", "--format=tflite"],
    )
    assert_refused(refused, "TFLite cannot represent the loops of the LSTM layers")
    assert not (folder / "served").exists()


def test_only_the_dialect_of_bert_tf_stores_these_heads(folder):
    (trained,) = run_main(NER, ner(folder, **BILSTM))
    assert trained.code == 0, trained
    refused, copied, encoder = run_main(
        "bert_tf.run_scripts.convert_checkpoint",
        [f"--from={folder}/out", f"--to={folder}/hf", "--dialect=hugging_face"],
        [f"--from={folder}/out", f"--to={folder}/copy", "--dialect=bert-tf"],
        [f"--from={folder}/out", f"--to={folder}/e", "--dialect=google", "--encoder_only=true"],
    )
    assert refused.code == 2 and "which only the dialect bert-tf can store" in refused.messages[-1]
    assert not (folder / "hf").exists()
    assert copied.code == 0, copied
    model = bert_tf.load(folder / "copy").model(bert_tf.BertTagger)
    assert model.head_config.lstm_size == 8
    assert encoder.code == 0, encoder
