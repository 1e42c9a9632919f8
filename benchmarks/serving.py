r"""Measures the answers of an exported model: milliseconds for each batch size and length.

Compares, in one process and in turns of a few requests each, the signature `ids` of the export in
float32 and bfloat16, a graph of the same model without checks, the signature `serving_default` on
texts of about as many tokens, and TFLite files and ONNX Runtime if files are given. The printed
number is the smallest of many. TFLite files run for single sequences.

    python run_scripts/export_model.py --checkpoint=/models/minilm --export_dir=/tmp/float32
    python run_scripts/export_model.py --checkpoint=/models/minilm --export_dir=/tmp/bfloat16 \
        --precision=bfloat16
    python run_scripts/export_model.py --checkpoint=/models/minilm --export_dir=/tmp/lite \
        --format=tflite
    python benchmarks/serving.py --checkpoint=/models/minilm --float32=/tmp/float32/1 \
        --bfloat16=/tmp/bfloat16/1 --tflite=/tmp/lite/1/tflite --onnx=float32.onnx
"""

import functools
import tempfile
import time

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers operations of the SavedModel)
from absl import app, flags

import bert_tf
from bert_tf.export.lite.lite_forward import LiteForward
from bert_tf.export.served import load_served
from bert_tf.pretrained import load

# Runs of a system in a row: those after the first one find the weights in the cache of the CPU.
REPEATS = 5
SHAPES = ((1, 32), (1, 128), (8, 128), (32, 128))
NAMES = ("input_ids", "input_mask", "segment_ids")
ONNX_NAMES = ("input_ids", "attention_mask", "token_type_ids")

FLAGS = flags.FLAGS
flags.DEFINE_string("checkpoint", None, "The checkpoint of the exports.", required=True)
flags.DEFINE_string("float32", None, "The folder of a float32 export.", required=True)
flags.DEFINE_string("bfloat16", None, "The folder of a bfloat16 export; None leaves it out.")
flags.DEFINE_string("tflite", None, "The folder of TFLite files; None leaves them out.")
flags.DEFINE_integer("threads", None, "Threads of TFLite and of ONNX Runtime. Default: all cores.")
flags.DEFINE_list("onnx", [], "ONNX files of the same model; none leaves ONNX Runtime out.")
flags.DEFINE_integer("rounds", 30, "Number of measurements of each system.")


def without_checks(folder):
    """Writes and loads a SavedModel of the model without checks and strings; returns its call."""
    served = load_served(load(FLAGS.checkpoint))
    specs = {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in NAMES}
    call = tf.function(lambda **inputs: served.from_ids(inputs), autograph=False)
    signatures = {"ids": call.get_concrete_function(**specs)}
    tf.saved_model.save(served, folder, signatures=signatures)
    return tf.saved_model.load(folder)


def calls(shape, models):
    """Returns a function without arguments for each system."""
    rng = np.random.default_rng(0)
    ids = rng.integers(1000, 20000, shape).astype(np.int32)
    ids[:, 0], ids[:, -1] = 101, 102
    arrays = (ids, np.ones_like(ids), np.zeros_like(ids))
    inputs = {name: tf.constant(value) for name, value in zip(NAMES, arrays, strict=True)}
    found = {}
    for name, model in models.items():
        signature = model.signatures["ids"]
        found[name] = lambda signature=signature: signature(**inputs)["embedding"].numpy()
    texts = tf.constant([" ".join(["word"] * (shape[1] - 2))] * shape[0])
    default = models["float32"].signatures["serving_default"]
    found["serving_default, float32"] = lambda: default(text=texts)["embedding"].numpy()
    if FLAGS.tflite and shape[0] == 1:
        inputs_of_file = dict(zip(NAMES, arrays, strict=True))
        for name in ("float32", "float16", "int8"):
            forward = LiteForward(f"{FLAGS.tflite}/{name}.tflite", FLAGS.threads, False)
            found[f"TFLite, {name}"] = functools.partial(forward.run, inputs_of_file)
            predictor = bert_tf.Predictor(
                f"{FLAGS.tflite}/{name}.tflite", 1, num_threads=FLAGS.threads
            )
            text = " ".join(["word"] * (shape[1] - 2))
            found[f"TFLite, {name}, Predictor from a text"] = functools.partial(predictor, text)
    for path in FLAGS.onnx:
        found[f"ONNX Runtime, {path.rsplit('/', 1)[-1]}"] = onnx_call(path, arrays)
    return found


def onnx_call(path, arrays):
    """Returns a function that runs an ONNX file."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = FLAGS.threads or 0
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {name: value.astype(np.int64) for name, value in zip(ONNX_NAMES, arrays, strict=True)}
    return lambda: session.run(None, feeds)


def measure(functions):
    """Returns the smallest number of milliseconds of each function; they take turns."""
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(FLAGS.rounds):
        for name, function in functions.items():
            time.sleep(0.05)  # the threads of ONNX Runtime wait actively for a while
            for _ in range(REPEATS):
                start = time.perf_counter()
                function()
                best[name] = min(best[name], 1e3 * (time.perf_counter() - start))
    return best


def main(_):
    """Prints a table."""
    models = {"float32": tf.saved_model.load(FLAGS.float32)}
    with tempfile.TemporaryDirectory() as folder:
        models["float32, without checks"] = without_checks(folder)
    if FLAGS.bfloat16:
        models["bfloat16"] = tf.saved_model.load(FLAGS.bfloat16)
    results = [measure(calls(shape, models)) for shape in SHAPES]
    print("| system | " + " | ".join(f"{b}x{s}" for b, s in SHAPES) + " |")
    print("|---" * (1 + len(SHAPES)) + "|")
    for name in results[0]:
        cells = (f"{each[name]:.2f}" if name in each else "" for each in results)
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    app.run(main)
