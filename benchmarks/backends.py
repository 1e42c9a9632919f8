r"""Compares the models on TensorFlow, JAX and PyTorch, and on several devices of JAX.

    python benchmarks/backends.py --init_checkpoint=MODEL --jax_python=/tmp/jax/bin/python \
        --torch_python=/tmp/torch/bin/python

Each of the six models gets the weights of the checkpoint, and those of its head from a
random generator, is called, and trained for ten steps without dropout and clipping. The
table has the largest differences from TensorFlow: of the outputs, of the gradients of
the first step, and of the weights after the steps. Variables on which the loss does not
depend are left out. Then the pretrainer is trained on one device of JAX, on eight, and
on a mesh of 4 x 2; the largest differences of the losses are printed.
"""

import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("init_checkpoint", None, "The checkpoint.", required=True)
flags.DEFINE_string("jax_python", "", "The Python of an environment with JAX.")
flags.DEFINE_string("torch_python", "", "The Python of an environment with PyTorch.")
flags.DEFINE_string("worker", "", "Internal: the file of results, and the meshes.")

B, C, S, P, LABELS, STEPS, RATE = 8, 2, 32, 5, 3, 10, 1e-4
KINDS = ("encoder", "pretrainer", "classifier", "span", "tagger", "choice")
# The gradients of these variables are 0, up to rounding.
NO_EFFECT = {
    "span": r"key/bias|/head/output_bias|layer_{last}/output_norm/beta|pooler",
    "tagger": r"key/bias|pooler",
    "choice": r"key/bias|/head/output_bias",
}


def make(kind, checkpoint):
    """Returns a model without dropout."""
    import bert_tf

    classes = {
        "encoder": (bert_tf.BertEncoder, {}),
        "pretrainer": (bert_tf.BertPretrainer, {}),
        "classifier": (bert_tf.BertClassifier, {"num_labels": LABELS}),
        "span": (bert_tf.BertSpanPredictor, {}),
        "tagger": (bert_tf.BertTagger, {"num_labels": LABELS}),
        "choice": (bert_tf.BertMultipleChoice, {}),
    }
    model_class, options = classes[kind]
    if kind in ("classifier", "tagger", "choice"):
        options["classifier_dropout"] = 0.0
    config = dataclasses.replace(
        checkpoint.config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    model = model_class(config, name=kind, **options)

    # The weights of the head are random, and the same on each backend.
    rng = np.random.default_rng(1)
    for variable in model.trainable_variables:
        if "/bert/" not in variable.path and len(variable.shape) > 1:
            variable.assign(rng.normal(0, 0.02, variable.shape).astype(np.float32))
    checkpoint.assign(model)
    return model


def batch(kind, vocab_size, step):
    """Returns inputs and targets."""
    rng = np.random.default_rng(step)
    shape = (B, C, S) if kind == "choice" else (B, S)
    mask = np.arange(S) < rng.integers(8, S + 1, (*shape[:-1], 1))
    ids = rng.integers(1000, vocab_size, shape) * mask
    inputs = {"input_ids": ids, "input_mask": mask, "segment_ids": ids * 0}
    if kind == "pretrainer":
        inputs["masked_lm_positions"] = rng.integers(0, 8, (B, P))
    targets = {
        "pretrainer": {
            "masked_lm_logits": rng.integers(1000, vocab_size, (B, P)),
            "next_sentence_logits": rng.integers(0, 2, (B, 1)),
        },
        "span": {
            name: rng.integers(0, 8, B) for name in ("start_logits", "end_logits")
        },
        "tagger": {"logits": rng.integers(0, LABELS, (B, S))},
        "choice": {"logits": rng.integers(0, C, B)},
    }.get(kind, {"logits": rng.integers(0, LABELS, B)})
    return tuple(
        {name: value.astype(np.int32) for name, value in part.items()}
        for part in (inputs, targets)
    )


def train(model, kind):
    """Trains; returns the losses, the gradients of the first step and the weights."""
    import keras

    import bert_tf

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = bert_tf.AdamWeightDecay(RATE, clip_norm=None)
    batches = [batch(kind, model.config.vocab_size, step) for step in range(STEPS)]
    model.compile(optimizer, loss=dict.fromkeys(batches[0][1], loss))

    last = model.config.num_hidden_layers - 1
    pattern = NO_EFFECT.get(kind, "key/bias").replace("{last}", str(last))
    losses, gradients = [], {}
    for step, data in enumerate(batches):
        model.reset_metrics()
        logs = model.train_on_batch(*data, return_dict=True)
        losses.append(float(logs["loss"]))
        if not step:  # the first moment is a tenth of the gradient
            for variable, moment in zip(
                model.trainable_variables, optimizer._adam_m, strict=True
            ):
                gradients[variable.path] = 10 * keras.ops.convert_to_numpy(moment)
    weights = {
        variable.path: keras.ops.convert_to_numpy(variable)
        for variable in model.trainable_variables
    }
    used = [path for path in weights if not re.search(pattern, path)]
    return losses, [gradients[path] for path in used], [weights[path] for path in used]


def work(path, meshes):
    """Writes the results of this backend, or the losses for each mesh."""
    import keras

    import bert_tf

    checkpoint = bert_tf.load(FLAGS.init_checkpoint)
    results = {}
    for mesh in meshes:
        distribution = None
        if mesh:
            devices = keras.distribution.DeviceMesh(mesh, ("batch", "model"))
            layouts = bert_tf.layout_map(devices, checkpoint.config)
            distribution = keras.distribution.ModelParallel(
                layout_map=layouts, batch_dim_name="batch"
            )
        keras.distribution.set_distribution(distribution)
        model = make("pretrainer", checkpoint)
        results[f"losses {mesh}"] = np.array(train(model, "pretrainer")[0])

    for kind in () if meshes else KINDS:
        model = make(kind, checkpoint)
        found = model(batch(kind, model.config.vocab_size, 0)[0])
        for name, value in found.items():
            if not isinstance(value, list):
                results[f"{kind} outputs {name}"] = keras.ops.convert_to_numpy(value)
        if kind != "encoder":
            losses, gradients, weights = train(model, kind)
            results[f"{kind} losses"] = np.array(losses)
            for number, (gradient, weight) in enumerate(
                zip(gradients, weights, strict=True)
            ):
                results[f"{kind} gradients {number}"] = gradient
                results[f"{kind} weights {number}"] = weight
    np.savez(path, **results)


def run(python, backend, meshes=(), devices=1):
    """Returns the results of a process with another backend."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "results.npz")
        command = [python, __file__, f"--init_checkpoint={FLAGS.init_checkpoint}"]
        command.append(f"--worker={json.dumps([path, meshes])}")
        environment = {
            **os.environ,
            "KERAS_BACKEND": backend,
            "NPROC": "32",
        }
        flag = f"--xla_force_host_platform_device_count={devices}"
        subprocess.run(command, check=True, env={**environment, "XLA_FLAGS": flag})
        return dict(np.load(path))


def main(_):
    if FLAGS.worker:
        work(*json.loads(FLAGS.worker))
        return
    expected = run(sys.executable, "tensorflow")
    pythons = {"jax": FLAGS.jax_python, "torch": FLAGS.torch_python}
    for backend, python in pythons.items():
        if not python:
            continue
        found = run(python, backend)
        for kind in KINDS:
            largest = {}
            for name, values in expected.items():
                if name.startswith(kind):
                    figure = name.split()[1]
                    difference = float(np.abs(found[name] - values).max())
                    largest[figure] = max(largest.get(figure, 0.0), difference)
            print(
                backend, kind, {n: f"{v:.1e}" for n, v in largest.items()}, flush=True
            )

    if FLAGS.jax_python:
        one, *others = run(
            FLAGS.jax_python, "jax", [None, (8, 1), (4, 2)], devices=8
        ).items()
        for name, values in others:
            print(name, f"{np.abs(values - one[1]).max():.1e}", values, flush=True)


if __name__ == "__main__":
    app.run(main)
