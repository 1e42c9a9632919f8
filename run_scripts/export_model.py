r"""Exports a model as a SavedModel that takes raw text, as TFLite, or as ONNX files.

    python run_scripts/export_model.py --checkpoint=/tmp/mrpc_output \
        --export_dir=/models/mrpc

The first run of this command writes the SavedModel to /models/mrpc/1, the second run to
/models/mrpc/2, and so on. TensorFlow Serving can load the SavedModel, and so can any
program that imports tensorflow and tensorflow_text:

    import tensorflow as tf, tensorflow_text
    model = tf.saved_model.load("/models/mrpc/1")
    model.signatures["serving_default"](text=tf.constant(["raw text"]))

A run of run_classifier, run_squad, run_ner or run_swag is exported for its task, and
any other checkpoint, such as a folder of Hugging Face, for the task of its head:
fill-mask for a masked-LM head, vectors of texts for a model without head. What the
checkpoint does not state, such as --pair, has the default of the program that trains
such models; the program prints these values.

With --format=tflite, the program writes TFLite files to /models/mrpc/1/tflite, and
prints their sizes and latencies:

    predictor = bert_tf.Predictor("/models/mrpc/1/tflite/int8.tflite")

With --format=onnx, the program writes ONNX files in the same way to
/models/mrpc/1/onnx.

The program runs the new files in another process. If their outputs differ from the
outputs of the original model, the export fails and no version is added.
"""

from absl import flags

from bert_tf.export.serving_settings import ServingSettings
from bert_tf.program import command_line, config_flags, startup
from bert_tf.tasks.ner.schemes import SCHEMES

FLAGS = flags.FLAGS
config_flags.define_path(
    "checkpoint",
    "Output folder of a run (exports the newest checkpoint, or the best weights of a "
    "run with early stopping), one of its checkpoints, or a checkpoint of another "
    "format.",
    required=True,
)
config_flags.define_path(
    "export_dir", "Folder of the model; a new version is created in it.", required=True
)
config_flags.define(ServingSettings)
config_flags.define_path(
    "dev_data",
    "File of labelled examples on which the metric of the SavedModel is compared with "
    "that of the checkpoint: a table with the inputs and 'label', or a file of SQuAD, "
    "SWAG or named entities (words in the first column, tags in the last). Default: "
    "the examples of the dev split that a run stores with --do_eval.",
)
flags.DEFINE_integer(
    "example_texts",
    0,
    "Number of examples of the dev split, with their labels, that the export contains "
    "for the page of demo.py. By default, it contains no texts of the data.",
    lower_bound=0,
)
_FACTS = {
    "labels": (flags.DEFINE_list, "The labels or tags, in the order of the outputs."),
    "pair": (flags.DEFINE_bool, "Classifiers: whether the model takes pairs of texts."),
    "scheme": (flags.DEFINE_string, f"Task tagging: one of {', '.join(SCHEMES)}."),
    "doc_stride": (
        flags.DEFINE_integer,
        "Task span: tokens between the starts of windows.",
    ),
    "max_query_length": (
        flags.DEFINE_integer,
        "Task span: tokens of the longest question.",
    ),
    "max_answer_length": (
        flags.DEFINE_integer,
        "Task span: tokens of the longest answer.",
    ),
    "version_2_with_negative": (
        flags.DEFINE_bool,
        "Task span: some questions have no answer.",
    ),
}
for _name, (_define, _help) in _FACTS.items():
    _define(
        _name,
        None,
        f"{_help} Default: as in the training, else that of the task's program.",
    )


def main() -> None:
    """Exports the checkpoint, and prints the folder of the new version."""
    settings = config_flags.build(ServingSettings)
    startup.import_tensorflow()
    import tensorflow as tf

    from bert_tf.export import api

    # The SavedModel runs on the CPU of another process, and is compared with the model
    # in this one.
    tf.config.set_visible_devices([], "GPU")
    facts = {
        name: FLAGS[name].value for name in _FACTS if FLAGS[name].value is not None
    }
    print(
        api.export(
            FLAGS.checkpoint.rstrip("/"),
            FLAGS.export_dir,
            settings=settings,
            dev_data=FLAGS.dev_data,
            facts=facts,
            example_texts=FLAGS.example_texts,
        )
    )


def run() -> None:
    """Runs the program from the command line."""
    command_line.run(main)


if __name__ == "__main__":
    run()
