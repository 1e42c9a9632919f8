"""Runs of a small Keras model with `AdamWeightDecay`, and the same runs in NumPy.

As a program, this module trains on two replicas: each replica is one half of the CPU.
It writes the final weights of `fit` and of a custom loop into the folder that is its
argument, and prints the messages of misuses as JSON.
"""

import json
import subprocess
import sys

import numpy as np
from reference import optimization as reference

STEPS, BATCH, WORDS, LENGTH, WIDTH, RATE, WARMUP = 4, 8, 7, 3, 4, 0.1, 1


def start(folder):
    """Trains on two replicas; returns the messages of misuses.

    Weights are in `<run>.npz`.
    """
    here = __file__.rsplit("/", 1)[0]
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); "
        "import keras_fit_runs as r; r.main()"
    )
    command = [sys.executable, "-c", code, here, str(folder)]
    done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout.splitlines()[-1])


def examples():
    """Returns ids and targets of all steps; the targets make large gradients."""
    rng = np.random.default_rng(0)
    ids = rng.integers(0, WORDS, [STEPS * BATCH, LENGTH]).astype(np.int32)
    return ids, (20 * rng.normal(size=[STEPS * BATCH, 1])).astype(np.float32)


def initial_weights():
    """Returns the initial weights by name, in the order of the model."""
    rng = np.random.default_rng(1)
    shapes = {"embeddings": (WORDS, WIDTH), "kernel": (WIDTH, 1), "bias": (1,)}
    return {
        name: rng.normal(size=shape).astype(np.float32)
        for name, shape in shapes.items()
    }


def batches():
    """Yields ids and targets of each step."""
    return [
        [np.split(values, STEPS)[step] for values in examples()]
        for step in range(STEPS)
    ]


def gradients(weights, ids, targets, batch_size=BATCH):
    """Returns the gradients of the mean squared error, and the row of each look-up."""
    vectors = weights["embeddings"][ids]
    means = vectors.mean(1)
    errors = 2 * (means @ weights["kernel"] + weights["bias"] - targets) / batch_size
    rows = np.repeat((errors @ weights["kernel"].T / LENGTH)[:, None], LENGTH, axis=1)
    embeddings = np.zeros_like(weights["embeddings"])
    np.add.at(embeddings, ids, rows)
    dense = {
        "embeddings": embeddings,
        "kernel": means.T @ errors,
        "bias": errors.sum(0),
    }
    return dense, {"embeddings": rows}


def train_in_numpy(clip_norm, replicas_that_clip=1):
    """Returns the final weights, and the norms of the gradients before clipping.

    With several `replicas_that_clip`, each replica clips the gradients of its part of
    the batch.
    """
    weights = {
        name: value.astype(np.float64) for name, value in initial_weights().items()
    }
    slots = {
        name: (np.zeros_like(value), np.zeros_like(value))
        for name, value in weights.items()
    }
    norms = []
    for step, batch in enumerate(batches()):
        parts = zip(
            *(np.split(values, replicas_that_clip) for values in batch), strict=True
        )
        total = {name: np.zeros_like(value) for name, value in weights.items()}
        for part in parts:
            clipped, norm = reference.clip(*gradients(weights, *part), clip_norm)
            total = {name: total[name] + clipped[name] for name in total}
            norms.append(norm)
        rate = reference.learning_rate(step, RATE, STEPS, WARMUP)
        for name in weights:
            weights[name], slots[name] = reference.adam_weight_decay(
                name, weights[name], total[name], slots[name], rate
            )
    return weights, norms


def make_model():
    """Returns the model with its initial weights."""
    import keras

    model = keras.Sequential(
        [
            keras.Input([LENGTH], dtype="int32"),
            keras.layers.Embedding(WORDS, WIDTH),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(1),
        ]
    )
    model.set_weights(list(initial_weights().values()))
    return model


def make_optimizer(clip_norm=1.0):
    """Returns the optimizer of all runs."""
    from bert_tf.training.keras_optimizer import AdamWeightDecay, WarmupSchedule

    return AdamWeightDecay(WarmupSchedule(RATE, STEPS, WARMUP), clip_norm=clip_norm)


def fit(model, epochs=slice(None)):
    """Trains on one batch in each epoch."""
    for ids, targets in batches()[epochs]:
        model.fit(ids, targets, batch_size=BATCH, shuffle=False, verbose=0)


def custom_loop(strategy, model, optimizer):
    """Trains with a loop that calls `strategy.run`."""
    import tensorflow as tf

    @tf.function
    def step(batch):
        strategy.run(replica_step, args=(batch,))

    def replica_step(batch):
        ids, targets = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((model(ids) - targets) ** 2) / BATCH
        variables = model.trainable_variables
        optimizer.apply(tape.gradient(loss, variables), variables)

    dataset = tf.data.Dataset.from_tensor_slices(examples()).batch(BATCH)
    for batch in strategy.experimental_distribute_dataset(dataset):
        step(batch)


def main():
    """Trains on two replicas."""
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * 2
    )
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

    def parts():
        with strategy.scope():
            model, optimizer = make_model(), make_optimizer()
            model.compile(optimizer, "mse")
        return model, optimizer

    def save(name, model):
        values = dict(zip(initial_weights(), model.get_weights(), strict=True))
        np.savez(f"{sys.argv[2]}/{name}.npz", **values)

    model, _ = parts()
    fit(model)
    save("fit", model)
    model, optimizer = parts()
    with strategy.scope():
        optimizer.build(model.trainable_variables)
    custom_loop(strategy, model, optimizer)
    save("custom_loop", model)
    print(json.dumps(misuses(strategy, parts)))


def misuses(strategy, parts):
    """Returns the message of each misuse."""
    from tensorflow.python.distribute import mirrored_strategy

    def without_build():
        model, optimizer = parts()
        custom_loop(strategy, model, optimizer)

    def jit_compile():
        model, optimizer = parts()
        model.compile(optimizer, "mse", jit_compile=True)
        # TensorFlow itself refuses to compile for several replicas on CPUs, but not on
        # GPUs.
        mirrored_strategy._is_gpu_device = lambda device: True
        fit(model)

    messages = {}
    for misuse in (without_build, jit_compile):
        try:
            misuse()
        except Exception as error:
            messages[misuse.__name__] = str(error)
    return messages
