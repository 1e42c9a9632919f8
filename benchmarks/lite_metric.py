r"""Compares labels of TFLite and ONNX files and MediaPipe with those of a SavedModel.

Prints, for a classifier of single texts, the accuracy on a dev split and the share of
texts with the label of the SavedModel.

    python run_scripts/export_model.py --checkpoint=/tmp/sst2 \
        --export_dir=/tmp/served --format=both
    python benchmarks/lite_metric.py --version=/tmp/served/1 --dev_file=SST-2/dev.tsv \
        --onnx=/tmp/onnx/float32.onnx,/tmp/onnx/int8.onnx
"""

import csv

import numpy as np
import tensorflow as tf
from absl import app, flags

import bert_tf
from bert_tf.export.model_file import load_file

FLAGS = flags.FLAGS
flags.DEFINE_string(
    "version", None, "The folder of a version in both formats.", required=True
)
flags.DEFINE_string(
    "dev_file", None, "A .tsv file with 'sentence' and 'label'.", required=True
)
flags.DEFINE_string(
    "own_onnx", None, "The folder of a version with ONNX files of bert-tf."
)
flags.DEFINE_list("onnx", [], "ONNX files that PyTorch wrote; none leaves them out.")
flags.DEFINE_bool(
    "mediapipe", False, "Whether to run the TFLite files in MediaPipe too."
)


def labels_of_onnx(path, texts, labels):
    """Returns the labels of an ONNX file, with the tokenizer of bert-tf."""
    import onnxruntime

    served, _ = load_file(f"{FLAGS.version}/tflite/float32.tflite")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found = []
    for text in texts:
        inputs = served.encode(tf.constant([text]))
        arrays = [inputs[each].numpy().astype(np.int64)
                  for each in ("input_ids", "input_mask", "segment_ids")]  # fmt: skip
        names = ("input_ids", "attention_mask", "token_type_ids")
        (logits,) = session.run(None, dict(zip(names, arrays, strict=True)))
        found.append(labels[int(logits[0].argmax())])
    return found


def labels_of_mediapipe(path, texts):
    """Returns the labels of MediaPipe's TextClassifier."""
    from mediapipe.tasks.python import text as tasks

    with tasks.TextClassifier.create_from_model_path(path) as task:
        found = [task.classify(text).classifications[0].categories for text in texts]
    return [
        max(each, key=lambda category: category.score).category_name for each in found
    ]


def main(_):
    """Prints a table."""
    with open(FLAGS.dev_file, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    texts, correct = [row["sentence"] for row in rows], [row["label"] for row in rows]
    found = {
        "SavedModel": [
            each["label"] for each in bert_tf.Predictor(FLAGS.version)(texts)
        ]
    }
    _, facts = load_file(f"{FLAGS.version}/tflite/float32.tflite")
    for precision in ("float32", "float16", "int8"):
        path = f"{FLAGS.version}/tflite/{precision}.tflite"
        found[f"TFLite, {precision}"] = [
            each["label"] for each in bert_tf.Predictor(path)(texts)
        ]
        if FLAGS.mediapipe:
            found[f"MediaPipe, {precision}"] = labels_of_mediapipe(path, texts)
    for precision in ("float32", "int8") if FLAGS.own_onnx else ():
        path = f"{FLAGS.own_onnx}/onnx/{precision}.onnx"
        found[f"ONNX, {precision}"] = [
            each["label"] for each in bert_tf.Predictor(path)(texts)
        ]
    for path in FLAGS.onnx:
        name = f"ONNX Runtime, {path.rsplit('/', 1)[-1]}"
        found[name] = labels_of_onnx(path, texts, facts["labels"])
    print(
        f"| system | accuracy on {len(texts)} texts | label of the SavedModel "
        "|\n|---|---|---|"
    )
    for name, labels in found.items():
        accuracy, same = (
            100 * np.mean(np.array(labels) == np.array(each))
            for each in (correct, found["SavedModel"])
        )
        print(f"| {name} | {accuracy:.2f} | {same:.2f} % |")


if __name__ == "__main__":
    app.run(main)
