"""Exports and predictions refuse wrong flags, damaged files and graphs with effects in one line."""

import dataclasses
import hashlib
import importlib.util
import json
import os
import shutil

import export_models
import pytest
import tensorflow as tf
from run_programs import assert_refused, run_mains
from tensorflow.core.protobuf import saved_model_pb2

from bert_tf.export import exporter
from bert_tf.export.lite import embedded_files
from bert_tf.export.settings import ServingSettings
from bert_tf.json_files import sha256_of_values

EXPORT, PREDICT = "bert_tf.run_scripts.export_model", "bert_tf.run_scripts.predict"
HAS_LITE = importlib.util.find_spec("ai_edge_litert") is not None
CHECKPOINT = "--checkpoint=ckpt/classification"
MODEL = "--model=served"
# The flags, with paths in the folder of the test, and words of the message.
EXPORT_ROWS = [
    ([CHECKPOINT], ["--export_dir is required"]),
    (["--export_dir=new"], ["--checkpoint is required"]),
    ([CHECKPOINT, "--export_dir=text.txt"], ["text.txt is a file", "folder for the versions"]),
    ([CHECKPOINT, "--export_dir=/dev/null"], ["/dev/null is a file"]),
    ([CHECKPOINT, "--export_dir=text.txt/a"], ["text.txt/a cannot be created", "Not a directory"]),
    ([CHECKPOINT, "--export_dir=ckpt/classification"], ["is inside the checkpoint", "removed"]),
    ([CHECKPOINT, "--export_dir=ckpt"], ["ckpt contains other files, such as classification"]),
    ([CHECKPOINT, "--export_dir=."], [". contains other files", "new folder"]),
    ([CHECKPOINT, "--export_dir=ckpt/classification/a"], ["is inside the checkpoint", "removed"]),
    ([CHECKPOINT, "--export_dir=link"], ["link contains other files"]),
    ([CHECKPOINT, "--export_dir="], ["export_dir. Received an empty path"]),
    ([CHECKPOINT, "--export_dir=new", "--top_k=5"], ["top_k=5 has no effect for the task clas"]),
    ([CHECKPOINT, "--export_dir=new", "--pooling=mean"], ["only for embedding. Leave it out"]),
    ([CHECKPOINT, "--export_dir=new", "--normalize=false"], ["normalize=False has no effect"]),
    ([CHECKPOINT, "--export_dir=new", "--null_score_diff_threshold=1"], ["only for span"]),
    ([CHECKPOINT, "--export_dir=http://host/a"], ["http://host/a"]),
    ([CHECKPOINT, "--export_dir=last"], ["version 9223372036854775807", "another folder"]),
    ([CHECKPOINT, "--export_dir=new", "--max_seq_length=-1"], ["--max_seq_length must be", "-1"]),
    ([CHECKPOINT, "--export_dir=new", "--max_seq_length=0"], ["--max_seq_length must be at", "0"]),
    ([CHECKPOINT, "--export_dir=new", "--max_seq_length=1000000000"], ["from 3 to 16", "10000000"]),
    ([CHECKPOINT, "--export_dir=new", "--max_seq_length=1e9"], ["max_seq_length=1e9"]),
    ([CHECKPOINT, "--export_dir=new", "--format=both", "--tflite_length=-1"], ["at least 3", "-1"]),
    ([CHECKPOINT, "--export_dir=new", "--format=both", "--tflite_length=0"], ["at least 3", "0"]),
    ([CHECKPOINT, "--export_dir=new", "--tflite_length=8"], ["--tflite_length needs format"]),
    ([CHECKPOINT, "--export_dir=new", "--format=tflite", "--tflite_precisions="], ["at least one"]),
    ([CHECKPOINT, "--export_dir=new", "--top_k=0"], ["--top_k must be at least 1", "0"]),
    ([CHECKPOINT, "--export_dir=new", "--top_k=-1"], ["--top_k must be at least 1", "-1"]),
    ([CHECKPOINT, "--export_dir=new", "--null_score_diff_threshold=nan"], ["finite", "nan"]),
    ([CHECKPOINT, "--export_dir=new", "--precision=int4"], ["--precision must be", "float32"]),
    ([CHECKPOINT, "--export_dir=new", "--precision=int8"], ["Give --tflite_precisions="]),
    ([CHECKPOINT, "--export_dir=new", "--task=span"], ["cannot be exported for this task"]),
    ([CHECKPOINT, "--export_dir=new", "--dev_data=none.tsv"], ["none.tsv"]),
    ([CHECKPOINT, "--export_dir=new", "--dev_data=text.txt"], ["text.txt"]),
    (["--checkpoint=none", "--export_dir=new"], ["none"]),
    (["--checkpoint=served", "--export_dir=new"], ["served", "no checkpoint"]),
]  # fmt: skip
PREDICT_ROWS = [
    (["--text=a"], ["--model is required"]),
    (["--model=", "--text=a"], ["--model is empty"]),
    (["--model=none", "--text=a"], ["There is no file or folder none"]),
    (["--model=http://host/a", "--text=a"], ["http://host/a is an address", "Download"]),
    (["--model=http://host/a.tflite", "--text=a"], ["http://host/a.tflite is an address"]),
    (["--model=foo://host/a", "--text=a"], ["foo://host/a"]),
    (["--model=text.txt", "--text=a"], ["text.txt is not an exported model"]),
    (["--model=ckpt/classification", "--text=a"], ["is not an exported model"]),
    (["--model=odd_versions", "--text=a"], ["1111 is the newest version, but has no saved"]),
    ([MODEL, "--text=a\udcff"], ["--text=a", "xff", "is not UTF-8"]),
    ([MODEL, "--context=a\udcff", "--question=a"], ["--context=a", "xff", "is not UTF-8"]),
    ([MODEL, "--text=a", "--input_file=text.txt"], ["Several inputs were given"]),
    ([MODEL, "--question=a"], ["--question and --context need each other"]),
    ([MODEL, "--choice=a"], ["--choice needs --context"]),
    ([MODEL, "--text=a", "--batch_size=0"], ["batch_size"]),
    ([MODEL, "--text=a", "--batch_size=-2"], ["batch_size"]),
    ([MODEL, "--text=a", "--score"], ["no signature 'score'", "serving_default"]),
    ([MODEL, "--input_file=none.txt"], ["There is no file or folder none.txt"]),
    ([MODEL, "--input_file="], ["--input_file is empty"]),
    ([MODEL, "--input_file=cr.txt"], ["cr.txt has the line ends CR"]),
    ([MODEL, "--input_file=utf_16.txt"], ["utf_16.txt is UTF-16LE", "iconv -f UTF-16LE"]),
    ([MODEL, "--input_file=/dev/fd/0"], ["No text was given"]),
    ([MODEL, "--input_file=latin.txt"], ["latin.txt is not UTF-8", "line 2"]),
    ([MODEL, "--input_file=empty.txt"], ["No text was given", "empty.txt"]),
    ([MODEL, "--input_file=ckpt"], ["ckpt is a folder"]),
    (["--model=graph_cut", "--text=a"], ["graph_cut"]),
    (["--model=graph_empty", "--text=a"], ["graph_empty", "damaged"]),
    (["--model=graph_text", "--text=a"], ["graph_text"]),
    (["--model=graph_flip", "--text=a"], ["graph_flip"]),
    (["--model=index_cut", "--text=a"], ["variables.index was changed after the export"]),
    (["--model=index_flip", "--text=a"], ["variables.index was changed after the export"]),
    (["--model=data_cut", "--text=a"], ["data_cut/1 cannot be loaded"]),
    (["--model=data_flip", "--text=a"], ["data_flip/1 cannot be loaded"]),
    (["--model=data_removed", "--text=a"], ["data_removed/1 cannot be loaded"]),
    (["--model=facts_removed", "--text=a"], ["There is no file", "weights.json"]),
    (["--model=facts_list", "--text=a"], ["weights.json is damaged", "one JSON object"]),
    (["--model=facts_labels", "--text=a"], ["weights.json was changed", "its SHA-256"]),
    (["--model=facts_length", "--text=a"], ["weights.json was changed", "its SHA-256"]),
    (["--model=facts_without_sha", "--text=a"], ["does not state its SHA-256"]),
    (["--model=pipe_graph", "--text=a"], ["1/saved_model.pb is a pipe or a device"]),
    (["--model=pipe_index", "--text=a"], ["variables.index is a pipe or a device"]),
    (["--model=pipe_data", "--text=a"], ["00000-of-00001 is a pipe or a device"]),
    (["--model=pipe_fingerprint", "--text=a"], ["fingerprint.pb is a pipe or a device"]),
    (["--model=pipe_facts", "--text=a"], ["weights.json is a pipe or a device"]),
    (["--model=pipe_debug", "--text=a"], ["saved_model_debug_info.pb is a pipe or a device"]),
    (["--model=pipe_asset", "--text=a", "--trust"], ["assets/a is a pipe or a device"]),
    (["--model=link_device", "--text=a"], ["fingerprint.pb is a pipe or a device"]),
    (["--model=root_only", "--text=a"], ["root_only cannot be loaded", "signatures"]),
    (["--model=signatures_variable", "--text=a"], ["signatures_variable cannot be loaded"]),
    (["--model=huge_constant", "--text=a"], ["huge_constant cannot be loaded", "allocate"]),
    (["--model=fails", "--text=a"], ["The model cannot compute these texts", "no_number"]),
    (["--model=asserts", "--text=a"], ["The model cannot compute these texts"]),
    *(([f"--model={name}", "--text=a"], ["no output", "Its outputs are"]) for name in (
        "score_scalar", "score_text", "score_short", "other_output", "tokens_only",
        "too_many_probabilities", "no_labels", "label_only",
    )),
    (["--model=score_nan", "--text=a"], ["The output score of the model has NaN or infinite"]),
    (["--model=fingerprint", "--text=a"], ["fingerprint.pb was changed after the export"]),
    (["--model=incomplete", "--text=a"], ["incomplete/2 is the newest version, but has no saved"]),
    ([MODEL, "--context=a", "--choice=b"], ["--choice is for models of multiple choice", "text"]),
    ([MODEL, "--context=a", "--question=b"], ["--question is for models of two texts", "text"]),
    (["--model=threshold_none", "--text=a"], ["the threshold in weights.json", "changed"]),
    (["--model=threshold_null", "--text=a"], ["the threshold in weights.json", "changed"]),
    (["--model=threshold_list", "--text=a"], ["damaged", "threshold must be above 0"]),
    (["--model=evil", "--text=a"], ["evil is refused", "WriteFile", "--trust=True"]),
]  # fmt: skip
LITE_ROWS = [
    (["--model=cut.tflite", "--text=a"], ["cut.tflite", "damaged"]),
    (["--model=header.tflite", "--text=a"], ["header.tflite is damaged", "SHA-256"]),
    (["--model=middle.tflite", "--text=a"], ["middle.tflite is damaged", "SHA-256"]),
    (["--model=zip.tflite", "--text=a"], ["zip.tflite", "damaged"]),
    (["--model=labels.tflite", "--text=a"], ["labels.tflite is damaged: the values", "SHA-256"]),
    (["--model=vocabulary.tflite", "--text=a"], ["damaged: vocab.txt in it", "SHA-256"]),
    (["--model=json.tflite", "--text=a"], ["json.tflite is damaged: bert_tf.json"]),
    (["--model=no_checksum.tflite", "--text=a"], ["another version of bert-tf"]),
    (["--model=more_labels.tflite", "--text=a"], ["no output probabilities", "4 labels"]),
    (["--model=text.tflite", "--text=a"], ["text.tflite contains no bert_tf.json"]),
]  # fmt: skip


def flip(content, place):
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def half(content):
    return content[: len(content) // 2]


def signed(facts):
    return {**facts, "facts_sha256": sha256_of_values(facts)}


def without_sha(content):
    facts = json.loads(content)
    return json.dumps(signed({key: facts[key] for key in facts if key != "files_sha256"})).encode()


def facts_with(**changes):
    return lambda content: json.dumps({**json.loads(content), **changes}).encode()


DAMAGE = {
    "graph_cut": ("saved_model.pb", half),
    "graph_empty": ("saved_model.pb", lambda _: b""),
    "graph_text": ("saved_model.pb", lambda _: b"not a graph\n" * 9),
    "graph_flip": ("saved_model.pb", lambda content: flip(content, len(content) // 2)),
    "index_cut": ("variables/variables.index", half),
    "index_flip": ("variables/variables.index", lambda content: flip(content, 40)),
    "data_cut": ("variables/variables.data-00000-of-00001", half),
    "data_flip": ("variables/variables.data-00000-of-00001", lambda content: flip(content, 40)),
    "data_removed": ("variables/variables.data-00000-of-00001", None),
    "fingerprint": ("fingerprint.pb", lambda _: b"garbage"),
    "facts_removed": ("assets.extra/weights.json", None),
    "facts_without_sha": ("assets.extra/weights.json", without_sha),
    "facts_list": ("assets.extra/weights.json", lambda _: b"[]"),
    "facts_labels": ("assets.extra/weights.json", facts_with(labels=["a", "b", "c"])),
    "facts_length": ("assets.extra/weights.json", facts_with(max_seq_length=7)),
}
PIPES = {
    "pipe_graph": "saved_model.pb", "pipe_index": "variables/variables.index",
    "pipe_data": "variables/variables.data-00000-of-00001", "pipe_fingerprint": "fingerprint.pb",
    "pipe_facts": "assets.extra/weights.json", "pipe_debug": "debug/saved_model_debug_info.pb",
    "pipe_asset": "assets/a",
}  # fmt: skip


def filled(text, value):
    return tf.fill([tf.size(text)], value)


def of_labels(text, columns=2, name="label"):
    """Returns the outputs of a classifier with the labels "a" and "b"."""
    labels = tf.gather(tf.constant(["a", "b"]), tf.zeros_like(tf.strings.length(text)))
    return {"probabilities": tf.fill([tf.size(text), columns], 0.5), name: labels}


def asserts(text):
    tf.debugging.assert_less(tf.size(text), 0)
    return {"score": filled(text, 1.0)}


AB = {"labels": ["a", "b"]}
# Odd models that pass the check of the graph: the signature, and the facts.
ODD = {
    "fails": (lambda text: {"score": tf.strings.to_number(filled(text, "no_number"))}, {}),
    "asserts": (asserts, {}),
    "score_nan": (lambda text: {"score": filled(text, float("nan"))}, {}),
    "score_scalar": (lambda text: {"score": filled(text, 1.0)[0]}, {}),
    "score_text": (lambda text: {"score": text}, {}),
    "score_short": (lambda text: {"score": tf.fill([tf.size(text) + 1], 1.0)}, {}),
    "other_output": (lambda text: {"other": text}, {}),
    "tokens_only": (lambda text: {"tokens": text}, {}),
    "too_many_probabilities": (lambda text: of_labels(text, 3), AB),
    "no_labels": (lambda text: {"probabilities": tf.fill([tf.size(text), 3], 0.5)}, {}),
    "label_only": (lambda text: {"label": of_labels(text)["label"]}, AB),
    "threshold_none": (lambda text: of_labels(text, name="labels"), AB),
    "threshold_null": (lambda text: of_labels(text, name="labels"), {**AB, "threshold": None}),
    "threshold_list": (lambda text: of_labels(text, name="labels"), {**AB, "threshold": [1, 2]}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a checkpoint, its export, damaged copies of the export, and odd files."""
    folder = tmp_path_factory.mktemp("exports")
    path, _ = export_models.write_checkpoint("classification", folder / "ckpt")
    settings = ServingSettings(format="both" if HAS_LITE else "saved_model",
                               tflite_precisions=["float32"] if HAS_LITE else
                               ServingSettings().tflite_precisions)  # fmt: skip
    exporter.export(path, str(folder / "served"), settings)
    for name, (file, change) in DAMAGE.items():
        place = folder / name / "1" / file
        shutil.copytree(folder / "served/1", folder / name / "1")
        content = place.read_bytes()
        place.unlink()
        if change:
            place.write_bytes(change(content))
    for name, file in PIPES.items():
        place = folder / name / "1" / file
        shutil.copytree(folder / "served/1", folder / name / "1")
        place.unlink(missing_ok=True)
        place.parent.mkdir(exist_ok=True)
        os.mkfifo(place)
    shutil.copytree(folder / "served/1", folder / "link_device/1")
    (folder / "link_device/1/fingerprint.pb").unlink()
    os.symlink("/dev/zero", folder / "link_device/1/fingerprint.pb")
    for name, (function, facts) in ODD.items():
        write_model(folder / name, function, facts)
    for name, change in CHANGES.items():
        write_model(folder / name, lambda text: {"score": filled(text, 1.0)}, {}, change)
    (folder / "text.txt").write_text("a line\n")
    (folder / "empty.txt").write_text("")
    (folder / "cr.txt").write_bytes(b"a text\rb text\rc text\r")
    (folder / "utf_16.txt").write_bytes("a text\nb text\n".encode("utf-16-le"))
    (folder / "latin.txt").write_bytes(b"a\ncaf\xe9\n")
    os.symlink(folder / "ckpt", folder / "link")
    shutil.copytree(folder / "served", folder / "incomplete")
    (folder / "incomplete/2/variables").mkdir(parents=True)
    (folder / "last" / str(2**63 - 1)).mkdir(parents=True)
    for name in ("²", "-1", "1.0", "00", "1" * 30):
        (folder / "odd_versions" / name).mkdir(parents=True)
    write_evil_model(folder / "evil")
    if HAS_LITE:
        content = (folder / "served/1/tflite/float32.tflite").read_bytes()
        changes = {
            "cut": half(content), "header": b"\xff" * 8 + content[8:],
            "middle": flip(content, 4000), "zip": content[:-40], "text": b"text" * 99,
        }  # fmt: skip
        for name, changed in changes.items():
            (folder / f"{name}.tflite").write_bytes(changed)
        write_lite_files(folder, content)
    return folder


def write_lite_files(folder, content):
    """Writes TFLite files whose embedded files were changed."""
    model, embedded = embedded_files.read_files("", content, "bert_tf.json", "vocab.txt")
    facts = json.loads(embedded["bert_tf.json"])
    others = {**facts, "facts": {**facts["facts"], "labels": ["ž", "y, z", "x"]}}
    more = {**facts, "facts": {**facts["facts"], "labels": ["x", "y, z", "ž", "w"]}}
    without = {key: facts[key] for key in facts if key != "facts_sha256"}
    changes = {
        "labels": {"bert_tf.json": json.dumps(others).encode()},
        "vocabulary": {"vocab.txt": embedded["vocab.txt"].replace(b"a\nb\n", b"b\na\n")},
        "json": {"bert_tf.json": b"[" * 100_000},
        "no_checksum": {"bert_tf.json": json.dumps(without).encode()},
        "more_labels": {
            "bert_tf.json": json.dumps({**more, "facts_sha256": sha256_of_values(more)}).encode()
        },
    }
    for name, changed in changes.items():
        path = folder / f"{name}.tflite"
        path.write_bytes(embedded_files.with_files(model, {**embedded, **changed}))


def write_evil_model(path):
    """Writes a SavedModel that writes the file evil.txt when it predicts."""

    def function(text):
        tf.io.write_file(str(path.parent / "evil.txt"), "content")
        return {"score": text}

    write_model(path, function, {})


def write_model(path, function, facts, change=None):
    """Writes a SavedModel with a variable, facts, and its checksum."""
    module = tf.Module()
    module.variable = tf.Variable(1.0)
    spec = tf.TensorSpec([None], tf.string, name="text")
    concrete = tf.function(function, autograph=False).get_concrete_function(text=spec)
    tf.saved_model.save(module, str(path), signatures={"serving_default": concrete})
    graph = path / "saved_model.pb"
    if change:
        model = saved_model_pb2.SavedModel.FromString(graph.read_bytes())
        change(model.meta_graphs[0])
        graph.write_bytes(model.SerializeToString())
    names = ("saved_model.pb", "fingerprint.pb", "variables/variables.index")
    hashes = {name: hashlib.sha256((path / name).read_bytes()).hexdigest() for name in names}
    facts = signed({**facts, "files_sha256": hashes})
    (path / "assets.extra").mkdir()
    (path / "assets.extra/weights.json").write_text(json.dumps(facts))


def signatures_of(graph):
    children = graph.object_graph_def.nodes[0].children
    return next(child for child in children if child.local_name == "signatures")


def remove_signatures(graph):
    signatures_of(graph).local_name = "other"


def replace_signatures(graph):
    nodes = enumerate(graph.object_graph_def.nodes)
    signatures_of(graph).node_id = next(i for i, each in nodes if each.HasField("variable"))


def add_huge_constant(graph):
    node = graph.graph_def.node.add(name="huge", op="Const")
    node.attr["dtype"].type = tensor_type = tf.float32.as_datatype_enum
    tensor = node.attr["value"].tensor
    tensor.dtype = tensor_type
    tensor.float_val.append(1)
    tensor.tensor_shape.dim.add(size=10**15)
    nodes = graph.object_graph_def.nodes
    nodes[0].children.add(local_name="huge", node_id=len(nodes))
    nodes.add().constant.operation = "huge"


CHANGES = {
    "root_only": remove_signatures, "signatures_variable": replace_signatures,
    "huge_constant": add_huge_constant,
}  # fmt: skip


def test_bad_input_is_refused_in_one_line(folder):
    before = sorted(str(path) for path in folder.rglob("*"))
    rows = [*((EXPORT, *row) for row in EXPORT_ROWS), *((PREDICT, *row) for row in PREDICT_ROWS)]
    rows += [(PREDICT, *row) for row in LITE_ROWS] if HAS_LITE else []
    results = run_mains([(program, flags) for program, flags, _ in rows], cwd=folder, secs=60)
    failed = []
    for (_, flags, words), result in zip(rows, results, strict=True):
        try:
            # The line about a checkpoint that was read may come first.
            assert_refused(dataclasses.replace(result, err="\n".join(result.messages[-1:])), *words)
        except AssertionError as error:
            failed.append(f"{flags}: {error}")
    assert not failed, "\n\n".join(failed)
    assert sorted(str(path) for path in folder.rglob("*")) == before


def test_closed_stdin_is_refused(folder):
    (result,) = run_mains([(PREDICT, [MODEL])], cwd=folder, stdin=None, secs=60)
    assert_refused(result, "No text was given: stdin is empty")
