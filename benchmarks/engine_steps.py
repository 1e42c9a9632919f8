"""Times a training step of the engine on TensorFlow and on JAX, and of `fit` on JAX.

    python benchmarks/engine_steps.py --shape=small

All systems train the same model on the same batch with dropout. Each runs in a process
of its own. The processes run in turns; the others wait. Prints the first call, which
traces and compiles, and the median of the steps.
"""

import statistics
import sys
import time

import training
import turns
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("system", "", "Internal: the system that a process runs.")
flags.DEFINE_enum("shape", "small", list(training.SHAPES), "Size and batch.")
SYSTEMS = {
    "engine, TensorFlow": "tensorflow",
    "engine, JAX": "jax",
    "fit, JAX": "jax",
}


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
    if system.startswith("fit"):
        run = make_fit(training.batch_of(FLAGS.shape))
    else:
        run, _ = training.make_bert_tf(FLAGS.shape, "float32", compiled=False)
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
        system: turns.start(
            [__file__, f"--system={system}", *options], KERAS_BACKEND=backend
        )
        for system, backend in SYSTEMS.items()
    }
    for system, (first, *others) in turns.take(processes, 1 + FLAGS.turns).items():
        step = statistics.median(others) / FLAGS.steps
        print(f"{system}: first {first:.1f} s, step {step * 1e3:.0f} ms", flush=True)


if __name__ == "__main__":
    app.run(main)
