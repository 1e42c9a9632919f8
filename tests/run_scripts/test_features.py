"""run_ner.py and run_classifier.py with a frozen encoder and with BiLSTM heads."""

import importlib.util
import json

import numpy as np
import pytest
from named_texts import VOCABULARY, sentences, write_split
from run_programs import (
    assert_each_refused,
    assert_refused,
    commands,
    newest,
    results_of,
    run_main,
    run_mains,
)
from safetensors.numpy import load_file

import bert_tf

NER, CLASSIFIER = "bert_tf.run_scripts.run_ner", "bert_tf.run_scripts.run_classifier"
CONFIG = bert_tf.BertConfig(
    vocab_size=len(VOCABULARY),
    hidden_size=16,
    num_hidden_layers=4,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=32,
    type_vocab_size=2,
    initializer_range=0.2,
)
BILSTM = {"head": "bilstm", "lstm_size": 8}


def write_encoder(folder, seed):
    tokenizer = bert_tf.BertTokenizer(VOCABULARY, do_lower_case=True)
    encoder = bert_tf.BertEncoder(CONFIG, seed=seed)
    bert_tf.save_checkpoint(encoder, tokenizer, folder)
    return encoder


@pytest.fixture
def folder(tmp_path):
    write_encoder(tmp_path / "model", 1)
    for name, count in (("train", 60), ("dev", 20)):
        write_split(tmp_path, name, count, ("0", "1"))
    return tmp_path


def command(folder, **flags):
    values = {
        "init_checkpoint": folder / "model", "data_dir": None, "vocab_file": None,
        "bert_config_file": None, "max_seq_length": 10, "train_batch_size": 8,
        "do_train": True, "do_eval": True, "optimizer": "adamw", "num_train_epochs": 3,
        "learning_rate": 1e-2, **flags,
    }  # fmt: skip
    return commands()(folder, **values)


def ner(folder, **flags):
    ending = {"train_file": folder / "train.conll", "dev_file": folder / "dev.conll"}
    return command(folder, **{**ending, "approach": "features", **flags})


def classifier(folder, **flags):
    files = {"train_file": folder / "train.tsv", "dev_file": folder / "dev.tsv"}
    return command(
        folder, task_name="custom", **{**files, "approach": "features", **flags}
    )


def weights_of(folder):
    facts = newest(folder, "weights.json").read_text()
    return load_file(newest(folder, "model.safetensors")), json.loads(facts)


def cached_vectors(folder):
    return np.concatenate([np.load(path) for path in sorted(folder.glob("*.npy"))])


def test_only_the_head_of_a_tagger_is_trained_on_the_hidden_states_of_the_encoder(
    folder,
):
    flags = {**BILSTM, "lstm_layers": 1, "feature_layers": "concat_last_four",
             "feature_dtype": "float32"}  # fmt: skip
    used = {"do_predict": True, "predict_file": folder / "dev.conll",
            "export_dir": folder / "served"}  # fmt: skip
    trained, evaluated, other_seed = run_main(
        NER,
        ner(
            folder,
            **flags,
            **used,
            num_train_epochs=30,
            eval_steps=50,
            learning_rate=2e-2,
        ),
        # Without training, the encoder computes the hidden states.
        [
            f"--init_checkpoint={folder}/out",
            "--do_eval=true",
            f"--dev_file={folder}/dev.conll",
            f"--output_dir={folder}/evaluated",
        ],
        ner(
            folder,
            **flags,
            seed=2,
            do_eval=False,
            stop_at_step=1,
            output_dir=folder / "other",
            feature_cache_dir=folder / "out/features",
        ),
    )
    assert trained.code == 0, trained
    before = load_file(folder / "model/model.safetensors")
    weights, facts = weights_of(folder / "out")
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
    assert facts["head"] == {
        "kind": "bilstm",
        "lstm_layers": 1,
        "lstm_size": 8,
        "feature_layers": "concat_last_four",
    }
    (state,) = (folder / "out/checkpoints").glob("*/optimizer.safetensors")
    assert not any(name.startswith("bert/") for name in load_file(state))

    encoder = bert_tf.load(folder / "model").model(bert_tf.BertEncoder)
    tokenizer = bert_tf.load(folder / "model").tokenizer
    expected = []
    for words in sentences(60, 60):
        outputs = encoder(
            tokenizer.encode([" ".join(words)], seq_length=10, trim_to_longest=True)
        )
        expected.append(np.stack(outputs["encoder_outputs"], axis=2)[0])
    found = cached_vectors(folder / "out/features/train-1-2-3-4")
    np.testing.assert_allclose(found, np.concatenate(expected), atol=1e-6)

    assert results_of(folder / "out")["eval_f1"] > 60  # the words determine the tags
    assert evaluated.code == 0, evaluated
    expected, found = results_of(folder / "out"), results_of(folder / "evaluated")
    assert (expected.pop("global_step"), found.pop("global_step")) == (225, 0)
    assert found == pytest.approx(expected)
    assert other_seed.code == 0, other_seed
    assert (
        "computing features" not in other_seed.err
        and "computing features" in trained.err
    )
    assert not (folder / "other/features").exists()

    # One SavedModel has the encoder and the head.
    assert (
        f"Next: python run_scripts/predict.py --model={folder}/served " in trained.out
    )
    answers = bert_tf.Predictor(str(folder / "served"))(
        [" ".join(x) for x in sentences(20, 20)]
    )
    lines = (folder / "out/predictions.conll").read_text().strip().split("\n\n")
    expected = [[line.split()[-1] for line in block.split("\n")] for block in lines]
    assert [row["tags"] for row in answers] == expected


def test_a_linear_classifier_is_trained_on_the_mean_of_each_text(folder):
    flags = {"feature_layers": "weighted_sum_all", "feature_dtype": "float32"}
    results = run_main(
        CLASSIFIER,
        classifier(folder, **flags, num_train_epochs=20),
        classifier(folder, **BILSTM, output_dir=folder / "bilstm", do_eval=False),
        classifier(folder, **BILSTM, output_dir=folder / "fine_tuned", do_eval=False,
                   approach="fine_tuning"),
    )  # fmt: skip
    assert [each.code for each in results] == [0, 0, 0], results
    found = cached_vectors(folder / "out/features/train-1-2-3-4-mean")
    assert found.shape == (60, 4, 16)
    weights, _ = weights_of(folder / "out")
    assert weights["cls/head_layers/layer_weights"].shape == (4,)
    assert not np.array_equal(
        weights["cls/head_layers/layer_weights"], np.full(4, 0.25)
    )
    assert results_of(folder / "out")["eval_accuracy"] > 0.7
    # The default of --feature_layers is the best row of the paper.
    assert (folder / "bilstm/features/train-1-2-3-4").is_dir()
    before = load_file(folder / "model/model.safetensors")
    weights, facts = weights_of(folder / "fine_tuned")
    assert facts["head"] == {"kind": "bilstm", "lstm_layers": 2, "lstm_size": 8}
    assert not all(
        np.array_equal(weights[name], array) for name, array in before.items()
    )


def test_flags_that_do_not_fit_are_refused(folder):
    architecture = {"vocab_file": folder / "model/vocab.txt",
                    "bert_config_file": folder / "model/bert_config.json"}  # fmt: skip
    cases = [
        (
            {"init_checkpoint": None, **architecture},
            "--approach=features needs --init_checkpoint",
        ),
        (
            {"layer_decay": 0.9},
            "--layer_decay has no effect without --approach=fine_tuning",
        ),
        ({"lstm_size": 8}, "--lstm_size has no effect without --head=bilstm"),
        ({**BILSTM, "lstm_size": 7}, "--lstm_size must be even"),
    ]
    assert_each_refused(NER, ner, folder, cases)


def test_changes_are_noticed_when_a_run_continues(folder):
    flags = {**BILSTM, "stop_at_step": 3}
    first, dtype, approach = run_main(
        NER,
        ner(folder, **flags),
        ner(
            folder,
            **BILSTM,
            feature_dtype="float32",
            feature_cache_dir=folder / "cache",
        ),
        ner(folder, approach="fine_tuning"),
    )
    assert first.code == 0, first
    assert dtype.code == 2
    message = (
        "with --feature_dtype='float16', but this run has --feature_dtype='float32'"
    )
    assert message in dtype.messages[-1]
    assert_refused(
        approach, "a run with --approach='features', but this run has no approach"
    )
    assert not (folder / "cache").exists()
    write_encoder(folder / "model", 2)
    (second,) = run_main(NER, ner(folder, **{**flags, "overwrite": True}))
    assert second.code == 2 and "encoder_sha256=" in second.messages[-1]


def test_a_saved_head_is_that_of_the_model(tmp_path):
    head = bert_tf.HeadConfig("bilstm", 1, 2)
    model = bert_tf.BertTagger(CONFIG, num_labels=2, head=head)
    tokenizer = bert_tf.BertTokenizer(VOCABULARY, do_lower_case=True)
    facts = {
        "task_type": "tagging",
        "labels": ["O", "B-a"],
        "scheme": "iob2",
        "max_seq_length": 8,
    }
    bert_tf.save_checkpoint(model, tokenizer, tmp_path / "a", **facts)
    loaded = bert_tf.load(tmp_path / "a")
    assert loaded.model(bert_tf.BertTagger).head_config == head
    # The layers are those of another task.
    assert loaded.model(bert_tf.BertClassifier, num_labels=3).head_layers is None
    convert, export = (
        "bert_tf.run_scripts.convert_checkpoint",
        "bert_tf.run_scripts.export_model",
    )
    source = f"--from={tmp_path}/a"
    other, copied, encoder, lite = run_mains(
        [
            (convert, [source, f"--to={tmp_path}/hf", "--dialect=hugging_face"]),
            (convert, [source, f"--to={tmp_path}/copy"]),
            (
                convert,
                [
                    source,
                    f"--to={tmp_path}/e",
                    "--dialect=google",
                    "--encoder_only=true",
                ],
            ),
            (
                export,
                [
                    f"--checkpoint={tmp_path}/a",
                    f"--export_dir={tmp_path}/served",
                    "--format=tflite",
                ],
            ),
        ]
    )
    assert (
        other.code == 2
        and "which only the dialect bert-tf can store" in other.messages[-1]
    )
    assert copied.code == encoder.code == 0, (copied, encoder)
    assert bert_tf.load(tmp_path / "copy").model(bert_tf.BertTagger).head_config == head
    if importlib.util.find_spec("ai_edge_litert"):
        assert_refused(lite, "TFLite cannot represent the loops of the LSTM layers")
    assert not (tmp_path / "hf").exists() and not (tmp_path / "served").exists()
