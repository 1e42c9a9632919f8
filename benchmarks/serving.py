r"""Measures exported models: milliseconds for each shape, and texts per second.

Compares, in one process and in turns, a SavedModel in float32 and bfloat16, TFLite and
ONNX files of the same model, and as peers the ONNX files of benchmarks/onnx_files.py.
ONNX files run in ONNX Runtime and in OpenVINO (if it is installed; it computes in
bfloat16 on CPUs with such instructions). The first table has the smallest time of many
requests with token ids, and at the end the requests of one text of 32 tokens per second
if as many clients as cores send them. The others have texts per second of two streams
of texts, sorted by length: once with token ids that are given, and once from texts,
with `Predictor`, or tokenizers and ONNX Runtime for the peers. Each system has the best
of the batch sizes 1, 8 and 32.

    python run_scripts/export_model.py --checkpoint=MODEL --export_dir=/tmp/both \
        --format=both --max_seq_length=384
    python run_scripts/export_model.py --checkpoint=MODEL --export_dir=/tmp/bfloat16 \
        --precision=bfloat16 --max_seq_length=384
    python run_scripts/export_model.py --checkpoint=MODEL --export_dir=/tmp/onnx \
        --format=onnx --max_seq_length=384
    TORCH benchmarks/onnx_files.py MODEL /tmp/peer
    python benchmarks/serving.py --checkpoint=MODEL --threads=2 \
        --saved_models=/tmp/both/1,/tmp/bfloat16/1 \
        --files=/tmp/both/1/tflite/int8.tflite,/tmp/onnx/1/onnx/int8.onnx \
        --peers=/tmp/peer/fused_float32.onnx,/tmp/peer/fused_int8.onnx \
        --sst2=SST-2/dev.tsv --squad=dev-v1.1.json
"""

import concurrent.futures
import csv
import importlib.util
import json
import os
import time

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers operations of the SavedModel)
from absl import app, flags

import bert_tf
from bert_tf.export.model_file import open_file
from bert_tf.pretrained import load

# Runs of a system in a row: those after the first one find the weights in the cache of
# the CPU.
REPEATS = 5
SHAPES = ((1, 32), (1, 128), (8, 128), (32, 128))
BATCH_SIZES = (1, 8, 32)
LENGTH, NUM_WINDOWS, REQUESTS = 384, 1000, 200
NAMES = ("input_ids", "input_mask", "segment_ids")
PEER_NAMES = ("input_ids", "attention_mask", "token_type_ids")

FLAGS = flags.FLAGS
flags.DEFINE_string("checkpoint", None, "The checkpoint of the exports.", required=True)
flags.DEFINE_list("saved_models", [], "Folders of versions for the task embedding.")
flags.DEFINE_list("files", [], "TFLite and ONNX files of bert-tf.")
flags.DEFINE_list("peers", [], "ONNX files of benchmarks/onnx_files.py.")
flags.DEFINE_integer("threads", 2, "Threads of each system.")
flags.DEFINE_integer(
    "rounds", 6, "Turns of each system for the shapes; 0 leaves them out."
)
flags.DEFINE_string("sst2", None, "dev.tsv of SST-2; None leaves this stream out.")
flags.DEFINE_string("squad", None, "A file of SQuAD; None leaves this stream out.")


def own_name(path, runtime=""):
    """Returns a short name, such as onnx/int8.onnx or both/1."""
    name = "/".join(path.rstrip("/").split("/")[-2:])
    return f"{name}, openvino" if runtime == "openvino" else name


def onnx_runtime(path):
    """Returns a function that runs an ONNX file of the peer."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = FLAGS.threads
    session = onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"]
    )
    return lambda inputs: session.run(None, inputs)[0]


def openvino(path):
    """Returns a function that runs an ONNX file of the peer with OpenVINO."""
    import openvino

    options = {"INFERENCE_NUM_THREADS": FLAGS.threads, "PERFORMANCE_HINT": "LATENCY"}
    model = openvino.Core().compile_model(path, "CPU", options)
    return lambda inputs: model(inputs)[0]


def runtimes_of(path):
    """Returns the runtimes of a file of bert-tf; OpenVINO only if it is installed."""
    if path.endswith(".onnx") and importlib.util.find_spec("openvino"):
        return ("onnxruntime", "openvino")
    return ("onnxruntime",)


def systems():
    """Returns by system a function: ids, mask, segments, int32 [B, S], to vectors."""
    found = {}
    for path in FLAGS.saved_models:
        model = tf.saved_model.load(path)

        def of_model(arrays, model=model):
            inputs = {name: tf.constant(arrays[name]) for name in NAMES}
            return model.signatures["ids"](**inputs)["embedding"].numpy()

        found[f"SavedModel, {own_name(path)}"] = of_model
    for path in FLAGS.files:
        for runtime in runtimes_of(path):
            run = open_file(path, FLAGS.threads, runtime).forward().run
            found[own_name(path, runtime)] = run
    for path in FLAGS.peers:
        for make in (onnx_runtime, openvino):
            try:
                run = make(path)
            except Exception as error:  # not installed, or operators of ONNX Runtime
                print(
                    f"{make.__name__} leaves out {own_name(path)}: {str(error)[:100]!r}"
                )
                continue

            def of_peer(arrays, run=run):
                values = (arrays[name].astype(np.int64) for name in NAMES)
                return run(dict(zip(PEER_NAMES, values, strict=True)))

            found[f"peer: {make.__name__}, {own_name(path)}"] = of_peer
    return found


def batch_of(rows):
    """Returns the inputs of sequences of ids, padded to the longest one."""
    ids = np.zeros([len(rows), max(map(len, rows))], np.int32)
    mask = np.zeros_like(ids)
    for number, row in enumerate(rows):
        ids[number, : len(row)], mask[number, : len(row)] = row, 1
    return dict(zip(NAMES, (ids, mask, np.zeros_like(ids)), strict=True))


def table_of_shapes(found):
    """Prints the smallest number of milliseconds of each system for each shape.

    They take turns.
    """
    print(
        "| system | "
        + " | ".join(f"{b}x{s}, ms" for b, s in SHAPES)
        + " | requests/s |"
    )
    print("|---" * (2 + len(SHAPES)) + "|")
    best = {name: [float("inf")] * len(SHAPES) for name in found}
    rng = np.random.default_rng(0)
    for column, shape in enumerate(SHAPES):
        batch = batch_of(rng.integers(1000, 20000, shape).tolist())
        for _ in range(FLAGS.rounds):
            for name, run in found.items():
                time.sleep(
                    0.05
                )  # the threads of ONNX Runtime wait actively for a while
                for _ in range(REPEATS):
                    start = time.perf_counter()
                    run(batch)
                    secs = time.perf_counter() - start
                    best[name][column] = min(best[name][column], 1e3 * secs)
    for name, row in best.items():
        # A compiled model of OpenVINO takes one request at a time.
        rate = "" if "openvino" in name else f"{requests_per_second(found[name]):.0f}"
        print(
            f"| {name} | " + " | ".join(f"{each:.2f}" for each in row) + f" | {rate} |"
        )


def requests_per_second(run):
    """Returns the requests per second of clients that each send one text at a time.

    A text has 32 tokens.
    """
    batch, clients = batch_of([[1000] * 32]), os.cpu_count()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        start = time.perf_counter()
        for _ in pool.map(run, [batch] * REQUESTS):
            pass
        return REQUESTS / (time.perf_counter() - start)


def seconds_of(run, rows, size):
    """Returns the seconds for all rows, in their order, in batches of a size."""
    start = time.perf_counter()
    for first in range(0, len(rows), size):
        run(rows[first : first + size])
    return time.perf_counter() - start


def table_of_stream(name, runs, rows):
    """Prints texts per second of each system for rows that are sorted by length."""
    part = rows[:: max(1, len(rows) // 100)]
    sizes, best = {}, dict.fromkeys(runs, float("inf"))
    for system, run in runs.items():
        seconds_of(run, part, 32)  # warm-up
        sizes[system] = min(
            BATCH_SIZES, key=lambda size, run=run: seconds_of(run, part, size)
        )
    for _ in range(2):
        for system, run in runs.items():
            time.sleep(0.5)
            best[system] = min(best[system], seconds_of(run, rows, sizes[system]))
    print(f"| {name} | texts/s | batch size |\n|---|---|---|")
    for system, secs in best.items():
        print(f"| {system} | {len(rows) / secs:.1f} | {sizes[system]} |", flush=True)


def text_systems(tokenizer, found):
    """Returns a function from a list of texts for each file, with its tokenizer."""
    from tokenizers import BertWordPieceTokenizer

    tokens = {token: row for row, token in enumerate(tokenizer.vocabulary)}
    peer = BertWordPieceTokenizer(tokens, lowercase=tokenizer.do_lower_case)
    peer.enable_truncation(LENGTH)
    runs = {
        f"Predictor, {own_name(path, runtime)}": bert_tf.Predictor(
            path,
            32,
            num_threads=FLAGS.threads,
            runtime="openvino" if runtime == "openvino" else "auto",
        )
        for path in [*FLAGS.saved_models, *FLAGS.files]
        for runtime in runtimes_of(path)
    }
    for name, run in found.items():
        if name.startswith("peer"):
            runs[f"tokenizers, {name}"] = lambda texts, run=run: run(
                batch_of([each.ids for each in peer.encode_batch(texts)])
            )
    return runs


def streams():
    """Yields the name and the texts of each stream."""
    if FLAGS.sst2:
        with open(FLAGS.sst2, encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            yield "SST-2 dev", [row["sentence"] for row in rows]
    if FLAGS.squad:
        with open(FLAGS.squad, encoding="utf-8") as file:
            articles = json.load(file)["data"]
        texts = [
            f"{question['question']} {paragraph['context']}"
            for article in articles
            for paragraph in article["paragraphs"]
            for question in paragraph["qas"]
        ]
        yield (
            f"{NUM_WINDOWS} questions of SQuAD",
            texts[:: len(texts) // NUM_WINDOWS][:NUM_WINDOWS],
        )


def main(_):
    """Prints all tables."""
    tf.config.threading.set_intra_op_parallelism_threads(FLAGS.threads)
    found, tokenizer = systems(), load(FLAGS.checkpoint).tokenizer
    if FLAGS.rounds:
        table_of_shapes(found)
    for name, texts in streams():
        encoded = tokenizer.encode(texts, seq_length=LENGTH)
        ids, lengths = (
            encoded["input_ids"].numpy(),
            encoded["input_mask"].numpy().sum(axis=1),
        )
        rows = [row[:length].tolist() for row, length in zip(ids, lengths, strict=True)]
        rows = sorted(rows, key=len)
        of_ids = {
            name: lambda part, run=run: run(batch_of(part))
            for name, run in found.items()
        }
        table_of_stream(f"{name}, token ids", of_ids, rows)
        table_of_stream(
            f"{name}, texts", text_systems(tokenizer, found), sorted(texts, key=len)
        )


if __name__ == "__main__":
    app.run(main)
