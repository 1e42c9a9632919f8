r"""Measures peak memory of a pretraining step, with and without gradient checkpointing.

Each case runs in its own process, which creates the model and the optimizer and runs
two steps (forward pass, backward pass, clipping, update) with dropout. The result is
the peak resident memory of this process.

    python benchmarks/memory.py --size=base --length=512 --batches=2,8 \
        --recompute_batches=8,32
"""

import json
import os
import resource
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
from absl import flags

from bert_tf.config import SIZES, BertConfig
from bert_tf.program import command_line

FLAGS = flags.FLAGS
flags.DEFINE_enum(
    "size",
    "base",
    list(SIZES),
    "Named size of the model; its vocabulary has 30,522 entries.",
)
flags.DEFINE_integer("length", 512, "Number of tokens per example.")
flags.DEFINE_list(
    "batches", ["2", "8"], "Batch sizes to measure; each gives one row of the table."
)
flags.DEFINE_list(
    "recompute_batches", ["8", "32"], "Batch sizes to measure with recomputation."
)
flags.DEFINE_enum(
    "precision", "float32", ["float32", "mixed_bfloat16"], "Dtype policy."
)
flags.DEFINE_bool("xla", False, "Compile the forward and backward pass with XLA.")
flags.DEFINE_string("worker", "", "Internal: the case that a worker process measures.")


def peak_gib() -> float:
    """Returns the peak resident memory of this process in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def batch_of(batch: int, length: int, vocab_size: int) -> dict[str, np.ndarray]:
    """Returns a batch of random ids, of which the model predicts 15 %."""
    rng = np.random.default_rng(0)
    predictions = max(1, round(0.15 * length))
    shape = (batch, predictions)
    return {
        "input_ids": rng.integers(0, vocab_size, (batch, length), np.int32),
        "input_mask": np.ones((batch, length), np.int32),
        "segment_ids": np.zeros((batch, length), np.int32),
        "masked_lm_positions": rng.integers(0, length, shape, np.int32),
        "masked_lm_ids": rng.integers(0, vocab_size, shape, np.int32),
        "masked_lm_weights": np.ones(shape, np.float32),
        "next_sentence_labels": rng.integers(0, 2, (batch, 1), np.int32),
    }


def measure(batch: int, recompute: bool) -> dict[str, float]:
    """Returns peak GiB before and after two steps, and seconds of the second step."""
    import keras
    import tensorflow as tf

    from bert_tf.modeling import BertPretrainer
    from bert_tf.pretraining.pretraining_objective import PretrainingObjective
    from bert_tf.training.tensorflow_step.step_runner import TensorFlowStepRunner
    from bert_tf.training.training_config import RuntimeConfig, TrainingConfig

    keras.config.set_dtype_policy(FLAGS.precision)
    config = BertConfig.named(FLAGS.size, 30522)
    objective = PretrainingObjective(
        BertPretrainer(config, seed=0, recompute=recompute)
    )
    training = TrainingConfig(
        num_train_steps=10, num_warmup_steps=0, global_batch_size=batch
    )
    runner = TensorFlowStepRunner(
        objective, training, RuntimeConfig(jit_compile=FLAGS.xla)
    )
    batches = tf.data.Dataset.from_tensors(
        batch_of(batch, FLAGS.length, config.vocab_size)
    )
    iterator = iter(batches.repeat())
    before = peak_gib()
    runner.train(iterator, 0, 1)
    start = time.perf_counter()
    runner.train(iterator, 1, 1)
    return {
        "before": before,
        "peak": peak_gib(),
        "seconds": time.perf_counter() - start,
    }


def main() -> None:
    """Measures each case and prints a table."""
    if FLAGS.worker:
        batch, recompute = json.loads(FLAGS.worker)
        print("RESULT " + json.dumps(measure(batch, recompute)))
        return
    print("batch  recompute  before the step  peak       step")
    cases = [(batch, False) for batch in FLAGS.batches]
    cases += [(batch, True) for batch in FLAGS.recompute_batches]
    for batch, recompute in cases:
        command = [
            sys.executable,
            *sys.argv,
            f"--worker={json.dumps([int(batch), recompute])}",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = [x for x in done.stdout.splitlines() if x.startswith("RESULT ")]
        if not lines:
            print(
                f"{batch:>5}  {recompute!s:9}  no result: exit code {done.returncode}"
            )
            continue
        result = json.loads(lines[0].removeprefix("RESULT "))
        print(
            f"{batch:>5}  {recompute!s:9}  {result['before']:10.2f} GiB  "
            f"{result['peak']:5.2f} GiB  {result['seconds']:5.1f} s",
            flush=True,
        )


def run() -> None:
    """Runs the program from the command line."""
    command_line.run(main)


if __name__ == "__main__":
    run()
