"""Times a training step of the engine on TensorFlow and on JAX, and of `fit` on JAX.

    python benchmarks/engine_steps.py --shape=small

All systems train the same model on the same batch with dropout. Each runs in a process
of its own. The processes run in turns; the others wait. Prints the first call, which
traces and compiles, and the median of the steps.
"""

import itertools
import os
import statistics
import subprocess
import sys
import time

import training
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("system", "", "Internal: the system that a process runs.")
flags.DEFINE_enum("shape", "small", list(training.SHAPES), "Size and batch.")
SYSTEMS = {
    "engine, TensorFlow": "tensorflow",
    "engine, JAX": "jax",
    "fit, JAX": "jax",
}


def make_engine(batch):
    """Returns a function that runs a number of steps of the engine."""
    import tensorflow as tf

    from bert_tf.modeling import BertPretrainer
    from bert_tf.pretraining.pretraining_objective import PretrainingObjective
    from bert_tf.training.backend import make_devices, make_step_runner
    from bert_tf.training.training_config import RuntimeConfig, TrainingConfig

    config = TrainingConfig(
        num_train_steps=10**6,
        num_warmup_steps=0,
        global_batch_size=len(batch["input_ids"]),
        learning_rate=training.RATE,
    )
    runtime = RuntimeConfig()
    objective = PretrainingObjective(
        BertPretrainer(training.config_of(FLAGS.shape), seed=0)
    )
    runner = make_step_runner(objective, config, runtime, make_devices(runtime))
    batches = iter(tf.data.Dataset.from_tensors(batch).repeat().prefetch(2))
    done = itertools.count(step=FLAGS.steps)
    return lambda steps: runner.train(batches, next(done), steps)


def make_fit(batch):
    """Returns a function that runs a number of steps of `fit`."""
    import numpy as np
    from keras import tree

    model = training.compile_pretrainer(FLAGS.shape)
    size = len(batch["input_ids"])

    def run(steps):
        inputs, targets, weights = tree.map_structure(
            lambda each: np.concatenate([each] * steps), training.fit_data(batch)
        )
        model.fit(inputs, targets, sample_weight=weights, batch_size=size, verbose=0)

    return run


def work(system):
    """Runs some steps for each line of standard input, and prints the seconds."""
    import keras

    assert keras.backend.backend() == SYSTEMS[system]
    make = make_fit if system.startswith("fit") else make_engine
    run = make(training.batch_of(FLAGS.shape))
    for _ in sys.stdin:
        start = time.perf_counter()
        run(FLAGS.steps)
        print(f"SECS {time.perf_counter() - start}", flush=True)


def main(_):
    if FLAGS.system:
        work(FLAGS.system)
        return

    options = [f"--{name}={FLAGS[name].value}" for name in ("shape", "steps", "turns")]
    processes = {
        system: subprocess.Popen(
            [sys.executable, __file__, f"--system={system}", *options],
            env={**os.environ, "KERAS_BACKEND": backend},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for system, backend in SYSTEMS.items()
    }

    # One turn of each system after the other.
    secs = {system: [] for system in processes}
    for _ in range(1 + FLAGS.turns):
        for system, process in processes.items():
            process.stdin.write("go\n")
            process.stdin.flush()
            line = next(each for each in process.stdout if each.startswith("SECS"))
            secs[system].append(float(line.split()[1]))
    for system, (first, *others) in secs.items():
        step = statistics.median(others) / FLAGS.steps
        print(f"{system}: first {first:.1f} s, step {step * 1e3:.0f} ms", flush=True)
        processes[system].stdin.close()


if __name__ == "__main__":
    app.run(main)
