"""Exports a fine-tuned classifier as a SavedModel that takes raw text.

    python run_scripts/export_model.py --checkpoint=/tmp/mrpc_output --export_dir=/models/mrpc

The first run of this command writes the SavedModel to /models/mrpc/1, the second run to
/models/mrpc/2, and so on. TensorFlow Serving can load the SavedModel, and so can any program that
imports tensorflow and tensorflow_text:

    import tensorflow as tf, tensorflow_text
    model = tf.saved_model.load("/models/mrpc/1")
    model.signatures["serving_default"](text=tf.constant(["raw text"]))

The program loads the written SavedModel, and raises an error if the outputs of the SavedModel
differ from the outputs of the original model.
"""

from absl import flags

from bert_tf import command_line
from bert_tf.errors import InputError
from bert_tf.weights import is_weights_folder

FLAGS = flags.FLAGS
flags.DEFINE_string(
    "checkpoint", None,
    "Output folder of run_classifier (exports the newest checkpoint, or the best weights of a run "
    "with early stopping), or one of its checkpoints.",
)  # fmt: skip
flags.DEFINE_string("export_dir", None, "Folder of the model; a new version is created in it.")
flags.mark_flags_as_required(["checkpoint", "export_dir"])


def main() -> None:
    """Exports the checkpoint."""
    from bert_tf.export import saved_model
    from bert_tf.training.lifecycle.run_folder import RunFolder

    folder = FLAGS.checkpoint.rstrip("/")
    if not is_weights_folder(folder):
        checkpoint = RunFolder(folder).best_or_latest_checkpoint()
        if checkpoint is None:
            raise InputError(f"--checkpoint={folder} has no checkpoint of run_classifier.")
        folder = checkpoint
    print(saved_model.export(folder, FLAGS.export_dir))


def run() -> None:
    """Entry point of the console script."""
    command_line.run(main)


if __name__ == "__main__":
    run()
