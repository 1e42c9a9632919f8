r"""Seconds that saving a training checkpoint holds training up, and its bytes.

python benchmarks/checkpoint.py --size=base --folder=/tmp/checkpoint
"""

import os
import pathlib
import shutil
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf
from absl import flags

from bert_tf import command_line
from bert_tf.config import BertConfig
from bert_tf.modeling import BertPretrainer, variables_by_name
from bert_tf.training.config import TrainingConfig
from bert_tf.training.lifecycle.checkpoint_writer import CheckpointWriter
from bert_tf.training.lifecycle.run_folder import CheckpointMetadata, RunFolder
from bert_tf.training.lifecycle.run_state import RunState
from bert_tf.training.step.optimizer import Optimizer

FLAGS = flags.FLAGS
flags.DEFINE_string("size", "base", "Named size.")
flags.DEFINE_string("folder", None, "Where to write to; removed at the end.", required=True)
flags.DEFINE_integer("turns", 3, "Checkpoints to write.")


def main():
    """Writes checkpoints and prints what they take; beside it, the same bytes written plainly."""
    config = BertConfig.named(FLAGS.size, 30522)
    optimizer = Optimizer(variables_by_name(BertPretrainer(config)))
    training = TrainingConfig(num_train_steps=10**6, num_warmup_steps=0)
    iterator = iter(tf.data.Dataset.range(9))
    folder = RunFolder(FLAGS.folder, CheckpointMetadata(config.to_dict()), training)
    for turn in range(FLAGS.turns):
        writer = CheckpointWriter(folder, optimizer, {}, 1)
        start = time.perf_counter()
        writer.save(RunState(turn + 1), iterator)
        stalling = time.perf_counter() - start
        writer.wait()
        writing = time.perf_counter() - start
        place = folder.checkpoint(turn + 1)
        start = time.perf_counter()
        found = folder.latest_checkpoint()
        checking = time.perf_counter() - start
        assert found == place
        count = sum(path.stat().st_size for path in pathlib.Path(place).iterdir())
        start = time.perf_counter()
        with open(f"{FLAGS.folder}/plain", "wb") as file:
            file.write(bytes(count))
            os.fsync(file.fileno())
        plain = time.perf_counter() - start
        print(
            f"{FLAGS.size}: {count / 1e9:.2f} GB; training stands still {stalling:.2f} s, all is "
            f"written after {writing:.1f} s (as many plain bytes: {plain:.1f} s); finding the "
            f"newest whole checkpoint takes {checking:.1f} s",
            flush=True,
        )
    shutil.rmtree(FLAGS.folder)


if __name__ == "__main__":
    command_line.run(main)
