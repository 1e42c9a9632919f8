r"""Measures the size of a checkpoint, and how long training pauses to save one.

python benchmarks/checkpoint.py --size=base --folder=/tmp/checkpoint
"""

import os
import pathlib
import shutil
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf
from absl import flags

from bert_tf.config import BertConfig
from bert_tf.modeling import BertPretrainer, variables_by_name
from bert_tf.program import command_line
from bert_tf.training.lifecycle.checkpoint import CheckpointWriter
from bert_tf.training.lifecycle.run_folder import CheckpointMetadata, RunFolder
from bert_tf.training.lifecycle.run_state import RunState
from bert_tf.training.tensorflow_step.optimizer import TensorFlowOptimizer
from bert_tf.training.training_config import TrainingConfig

FLAGS = flags.FLAGS
flags.DEFINE_string("size", "base", "Named size of the model.")
flags.DEFINE_string(
    "folder", None, "The folder to write to; removed at the end.", required=True
)
flags.DEFINE_integer("turns", 3, "Number of checkpoints to write.")


def main():
    """Prints the times to write checkpoints, and plain files of the same size."""
    config = BertConfig.named(FLAGS.size, 30522)
    optimizer = TensorFlowOptimizer(variables_by_name(BertPretrainer(config)))
    training = TrainingConfig(num_train_steps=10**6, num_warmup_steps=0)
    iterator = iter(tf.data.Dataset.range(9))
    folder = RunFolder(FLAGS.folder, CheckpointMetadata(config.to_dict()))
    for turn in range(FLAGS.turns):
        writer = CheckpointWriter(folder, optimizer, training, {}, 1)
        start = time.perf_counter()
        writer.save(RunState(turn + 1), iterator)
        pause_secs = time.perf_counter() - start
        writer.wait()
        write_secs = time.perf_counter() - start
        checkpoint = folder.checkpoint(turn + 1)
        start = time.perf_counter()
        latest = folder.latest_checkpoint()
        check_secs = time.perf_counter() - start
        assert latest == checkpoint
        num_bytes = sum(
            path.stat().st_size for path in pathlib.Path(checkpoint).iterdir()
        )
        start = time.perf_counter()
        with open(f"{FLAGS.folder}/plain", "wb") as file:
            file.write(bytes(num_bytes))
            os.fsync(file.fileno())
        plain_secs = time.perf_counter() - start
        print(
            f"{FLAGS.size}: {num_bytes / 1e9:.2f} GB; training is paused for "
            f"{pause_secs:.2f} s, the checkpoint is written after {write_secs:.1f} s "
            f"(a plain file of this size: {plain_secs:.1f} s), finding the latest "
            f"complete checkpoint takes {check_secs:.1f} s",
            flush=True,
        )
    shutil.rmtree(FLAGS.folder)


if __name__ == "__main__":
    command_line.run(main)
