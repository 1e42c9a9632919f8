"""Exports a fine-tuned classifier as a SavedModel that takes raw text.

    python run_scripts/export_model.py --checkpoint=/tmp/mrpc_output --export_dir=/models/mrpc

writes /models/mrpc/1 (then 2, 3, ...), which TensorFlow Serving takes as it is, and which answers
in any program with tensorflow and tensorflow_text:

    import tensorflow as tf, tensorflow_text
    model = tf.saved_model.load("/models/mrpc/1")
    model.signatures["serving_default"](text=tf.constant(["raw text"]))

Before it is called done, the SavedModel is loaded again and must answer as the live model does.
"""

from absl import flags

from bert_tf import command_line
from bert_tf.errors import InputError
from bert_tf.export import saved_model
from bert_tf.training import state
from bert_tf.weights import is_weights_folder

FLAGS = flags.FLAGS
flags.DEFINE_string(
    "checkpoint", None,
    "Folder of a finished run_classifier (its newest checkpoint, or the best one of a run that "
    "stopped early), or one checkpoint.",
)  # fmt: skip
flags.DEFINE_string("export_dir", None, "The model's folder; a new version is made in it.")
flags.mark_flags_as_required(["checkpoint", "export_dir"])


def main() -> None:
    """Exports as the flags say."""
    folder = FLAGS.checkpoint.rstrip("/")
    if not is_weights_folder(folder):
        newest = state.latest(folder)
        if newest is None:
            raise InputError(f"--checkpoint={folder} holds no checkpoint of run_classifier.")
        folder = state.handed_on(newest)
    print(saved_model.export(folder, FLAGS.export_dir))


def run() -> None:
    """The console script."""
    command_line.run(main)


if __name__ == "__main__":
    run()
