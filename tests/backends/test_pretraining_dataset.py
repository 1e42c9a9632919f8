"""`pretraining_dataset` on the backend of KERAS_BACKEND, compared with `pretrain`."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tiny_bert
import tiny_corpus
from refusals import refused_exactly

import bert_tf
from bert_tf.pretraining.fit_dataset import pretraining_dataset

LENGTH, PREDICTIONS, BATCH, STEPS, SEED = 32, 5, 8, 10, 7
KINDS = {"mlm_nsp": "static", "mlm": "dynamic"}  # the masking of each objective
ENGINE = """
import json, sys
import bert_tf

for files, init, folder, objective, batch, steps, seed in json.loads(sys.argv[1]):
    training = bert_tf.TrainingConfig(
        num_train_steps=steps, num_warmup_steps=2, learning_rate=1e-3, seed=seed,
        global_batch_size=batch,
    )
    bert_tf.pretrain(
        files, folder, init_checkpoint=init, training=training,
        config=bert_tf.PretrainingConfig(objective=objective),
        phases=bert_tf.RunPhases(train=True, evaluate=False),
        runtime=bert_tf.RuntimeConfig(log_steps=1),
    )
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    vocab_file = tiny_corpus.vocabulary_file(folder)
    text = tiny_corpus.text_of(tiny_corpus.corpus(40))
    for objective, masking in KINDS.items():
        tiny_corpus.make(
            folder,
            vocab_file,
            text,
            f"{objective}.tfrecord",
            masking=masking,
            max_predictions_per_seq=PREDICTIONS if masking == "static" else 20,
            objective=objective,
            max_seq_length=LENGTH,
            dupe_factor=2,
        )
    return folder


@pytest.fixture(scope="module")
def tokenizer(folder):
    return bert_tf.BertTokenizer(str(folder / "vocab.txt"))


@pytest.fixture(scope="module")
def config(tokenizer):
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    sizes = {"max_position_embeddings": LENGTH, "initializer_range": 0.2}
    return tiny_bert.small_config(tokenizer.vocab_size, **sizes, **no_dropout)


@pytest.fixture(scope="module")
def models(config):
    return {
        objective: bert_tf.BertPretrainer(config, next_sentence=objective == "mlm_nsp")
        for objective in KINDS
    }


@pytest.fixture(scope="module")
def losses_of_engine(folder, models, tokenizer):
    """The losses of the steps of `pretrain`, which needs TensorFlow."""
    runs = []
    for objective, model in models.items():
        init = bert_tf.save_checkpoint(model, tokenizer, folder / f"init_{objective}")
        paths = str(folder / f"{objective}.tfrecord*"), init, str(folder / objective)
        runs.append([*paths, objective, BATCH, STEPS, SEED])
    if keras.backend.backend() == "tensorflow":
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sys, "argv", ["engine", json.dumps(runs)])
            exec(ENGINE, {})
    else:
        environment = {**os.environ, "KERAS_BACKEND": "tensorflow"}
        command = [sys.executable, "-c", ENGINE, json.dumps(runs)]
        subprocess.run(command, check=True, env=environment, timeout=300)

    losses = {}
    for objective in models:
        lines = (folder / objective / "metrics.jsonl").read_text().splitlines()
        entries = map(json.loads, lines)
        losses[objective] = [each["loss"] for each in entries if "loss" in each]
    return losses


@pytest.mark.medium
@pytest.mark.parametrize("objective", KINDS)
def test_fit_has_the_losses_of_the_engine(
    folder, models, tokenizer, config, losses_of_engine, objective
):
    model, expected = models[objective], losses_of_engine[objective]
    cross_entropy = keras.losses.SparseCategoricalCrossentropy
    losses = {
        "masked_lm_logits": cross_entropy(
            from_logits=True, reduction="mean_with_sample_weight"
        )
    }
    if objective == "mlm_nsp":
        losses["next_sentence_logits"] = cross_entropy(from_logits=True)
    schedule = bert_tf.WarmupSchedule(1e-3, STEPS, num_warmup_steps=2)
    model.compile(
        bert_tf.AdamWeightDecay(schedule),
        loss=losses,
        jit_compile=keras.backend.backend() == "jax",
    )

    batches = bert_tf.pretraining_dataset(
        str(folder / f"{objective}.tfrecord*"),
        BATCH,
        SEED,
        config=config,
        tokenizer=tokenizer,
        records=bert_tf.PretrainingConfig(objective=objective),
    )
    history = model.fit(batches, epochs=STEPS, steps_per_epoch=1, verbose=0).history
    assert len(expected) == STEPS
    np.testing.assert_allclose(history["loss"], expected, atol=1e-5)


def test_left_to_right_targets_are_the_next_tokens(folder, config):
    records = bert_tf.PretrainingConfig(objective="causal")
    files = str(folder / "causal.tfrecord*")
    text = tiny_corpus.text_of(tiny_corpus.corpus(5))
    tiny_corpus.make(
        folder,
        str(folder / "vocab.txt"),
        text,
        "causal.tfrecord",
        objective="causal",
        max_predictions_per_seq=PREDICTIONS,
        masked_lm_prob=0.0,
        max_seq_length=LENGTH,
    )
    dataset = pretraining_dataset(files, BATCH, SEED, config=config, records=records)
    inputs, targets, weights = next(dataset.as_numpy_iterator())
    positions = inputs["masked_lm_positions"]
    assert (positions == np.arange(LENGTH - 1)).all()
    assert (targets["masked_lm_logits"] == inputs["input_ids"][:, 1:]).all()
    assert (weights["masked_lm_logits"] == inputs["input_mask"][:, 1:]).all()
    assert list(targets) == list(weights) == ["masked_lm_logits"]


def test_parts_join_to_the_batches(folder, config):
    arguments = (str(folder / "mlm_nsp.tfrecord*"), BATCH, SEED)
    whole = iter(pretraining_dataset(*arguments, config=config))
    parts = [
        iter(pretraining_dataset(*arguments, config=config, part=(number, 2)))
        for number in range(2)
    ]
    for _ in range(3):
        expected = keras.tree.flatten(next(whole))
        joined = zip(*(keras.tree.flatten(next(part)) for part in parts), strict=True)
        for found, values in zip(joined, expected, strict=True):
            np.testing.assert_array_equal(np.concatenate(found), values)


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="set KERAS_BACKEND=jax")
def test_a_batch_that_the_devices_cannot_divide(folder, config):
    keras.distribution.set_distribution(keras.distribution.DataParallel())
    message = (
        "global_batch_size must be a multiple of the devices that divide a batch. "
        "Received: 12 for 8 devices. Give 16."
    )
    try:
        with refused_exactly(message):
            pretraining_dataset(
                str(folder / "mlm_nsp.tfrecord*"), 12, SEED, config=config
            )
    finally:
        keras.distribution.set_distribution(None)
