"""The six models, small and without dropout, on the backend of Keras of this process.

As a program, this module runs in a folder that a test on another backend has prepared:
it predicts with the models `<kind>.keras` and the checkpoints `<kind>/` there, trains
other models, and writes all results.
"""

import functools
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np

import bert_tf

SIZES = {
    "vocab_size": 48,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 8,
    "intermediate_size": 32,
    "max_position_embeddings": 12,
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "initializer_range": 0.2,
}
CONFIG = bert_tf.BertConfig(**SIZES)
B, S, P, C, LABELS, STEPS = 16, 12, 3, 2, 3, 12
KINDS = {
    "encoder": (bert_tf.BertEncoder, {}),
    "pretrainer": (bert_tf.BertPretrainer, {}),
    "classifier": (
        bert_tf.BertClassifier,
        {"num_labels": LABELS, "classifier_dropout": 0.0},
    ),
    "span": (bert_tf.BertSpanPredictor, {}),
    "tagger": (bert_tf.BertTagger, {"num_labels": LABELS, "classifier_dropout": 0.0}),
    "choice": (bert_tf.BertMultipleChoice, {"classifier_dropout": 0.0}),
}


def make(kind, **options):
    """Returns a model. Its random weights are the same on each backend."""
    model_class, arguments = KINDS[kind]
    model = model_class(CONFIG, name=kind, **{"seed": 3, **arguments, **options})
    rng = np.random.default_rng(5)
    for variable in model.trainable_variables:
        value = rng.normal(0, 0.2, variable.shape) + variable.path.endswith("gamma")
        variable.assign(value.astype(np.float32))
    return model


def batch(kind, seed=0):
    """Returns inputs and targets of one batch, as arrays."""
    rng = np.random.default_rng(seed)
    shape = (B, C, S) if kind == "choice" else (B, S)
    mask = np.arange(S) < rng.integers(4, S + 1, (*shape[:-1], 1))
    ids = rng.integers(1, CONFIG.vocab_size, shape) * mask
    inputs = {"input_ids": ids, "input_mask": mask, "segment_ids": ids % 2}
    targets = {
        "encoder": {},
        "pretrainer": {
            "masked_lm_logits": rng.integers(1, CONFIG.vocab_size, (B, P)),
            "next_sentence_logits": rng.integers(0, 2, (B, 1)),
        },
        "classifier": {"logits": rng.integers(0, LABELS, B)},
        "span": {
            "start_logits": rng.integers(0, 4, B),
            "end_logits": rng.integers(0, 4, B),
        },
        "tagger": {"logits": rng.integers(0, LABELS, (B, S))},
        "choice": {"logits": rng.integers(0, C, B)},
    }[kind]
    if kind == "pretrainer":
        inputs["masked_lm_positions"] = rng.integers(0, 4, (B, P))
    return (
        {name: value.astype(np.int32) for name, value in inputs.items()},
        {name: value.astype(np.int32) for name, value in targets.items()},
    )


def outputs(model, kind):
    """Returns the outputs of a call, as arrays; without lists."""
    found = model(batch(kind)[0])
    return {
        name: keras.ops.convert_to_numpy(value)
        for name, value in found.items()
        if not isinstance(value, list)
    }


def compile_with(model, kind, optimizer, **options):
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    losses = dict.fromkeys(batch(kind)[1], cross_entropy)
    model.compile(optimizer, loss=losses, **options)


def adam(**options):
    schedule = bert_tf.WarmupSchedule(1e-3, 2 * STEPS, num_warmup_steps=3)
    return bert_tf.AdamWeightDecay(schedule, **{"clip_norm": None, **options})


def train(model, kind, steps=STEPS, start=0):
    """Trains a compiled model; returns the losses of the steps."""
    losses = []
    for step in range(start, start + steps):
        model.reset_metrics()
        logs = model.train_on_batch(*batch(kind, 10 + step), return_dict=True)
        losses.append(float(logs["loss"]))
    return losses


def variables(model):
    """Returns the weights, and the variables of the optimizer."""
    weights = [*model.trainable_variables, *model.optimizer.variables]
    return {each.path: keras.ops.convert_to_numpy(each) for each in weights}


def trained(kind):
    """Returns the model and the losses of 12 steps."""
    model = make(kind)
    compile_with(model, kind, adam())
    return model, train(model, kind)


@functools.cache
def trained_here(kind):
    """Returns losses and variables of 12 steps, and the losses of 3 more steps."""
    model, losses = trained(kind)
    return losses, variables(model), train(model, kind, 3, STEPS)


def save(path, arrays):
    """Writes arrays whose names are paths."""
    np.savez(path, **{name.replace("/", "|"): each for name, each in arrays.items()})


def load(path):
    return {name.replace("|", "/"): each for name, each in np.load(path).items()}


def run_on(backend, folder):
    """Runs this program on another backend."""
    command = [sys.executable, __file__, str(folder)]
    environment = {**os.environ, "KERAS_BACKEND": backend}
    subprocess.run(command, check=True, env=environment, timeout=300)


def main(folder):
    for kind in KINDS:
        # The files of the other backend.
        name = folder / kind
        of_file = outputs(bert_tf.load(f"{name}.keras"), kind)
        save(f"{name}_of_file.npz", of_file)
        checkpoint = bert_tf.load(str(name)).model(KINDS[kind][0])
        save(f"{name}_of_checkpoint.npz", outputs(checkpoint, kind))

        # The same computations here.
        model = make(kind)
        save(f"{name}_outputs.npz", outputs(model, kind))
        bert_tf.save_checkpoint(model, None, f"{name}_other")
        if kind != "encoder":
            model, losses = trained(kind)
            save(f"{name}_trained.npz", variables(model))
            np.savez(f"{name}_losses.npz", losses=losses)
            model.save(f"{name}_other.keras")
            save(f"{name}_trained_outputs.npz", outputs(model, kind))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
