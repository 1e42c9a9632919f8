"""Exports and predictions refuse wrong flags, damaged files and graphs with effects."""

import dataclasses
import hashlib
import shutil

import export_models
import numpy as np
import pytest
import tensorflow as tf
from json_files import write_json
from run_programs import assert_refused, run_mains
from shared_exports import exported, faster_exports

from bert_tf.storage.integrity import sha256_of_values

__all__ = ["exported", "faster_exports"]
EXPORT, PREDICT = "bert_tf.run_scripts.export_model", "bert_tf.run_scripts.predict"
CHECKPOINT = "--checkpoint=ckpt/classification"
MODEL = "--model=served"
# The flags, with paths in the folder of the test, and words of the message.
EXPORT_ROWS = [
    ([CHECKPOINT, "--export_dir=text.txt"], ["text.txt is a file", "a new folder"]),
    ([CHECKPOINT, "--export_dir=."], [". contains other files", "new folder"]),
    (
        [CHECKPOINT, "--export_dir=new", "--top_k=5"],
        ["top_k=5 has no effect for the task clas"],
    ),
    (
        [CHECKPOINT, "--export_dir=new", "--max_seq_length=0"],
        ["--max_seq_length must be from"],
    ),
    (
        [CHECKPOINT, "--export_dir=new", "--tflite_length=8"],
        ["--tflite_length needs format"],
    ),
    (
        [CHECKPOINT, "--export_dir=new", "--precision=int4"],
        ["--precision must be", "float32"],
    ),
    (
        [CHECKPOINT, "--export_dir=new", "--task=span"],
        ["cannot be exported for this task"],
    ),
    ([CHECKPOINT, "--export_dir=new", "--dev_data=none.tsv"], ["none.tsv"]),
    (["--checkpoint=served", "--export_dir=new"], ["served", "no checkpoint"]),
]
PREDICT_ROWS = [
    (["--model=none", "--text=a"], ["There is no file or folder 'none'"]),
    (["--model=http://host/a", "--text=a"], ["http://host/a is not an exported model"]),
    (["--model=text.txt", "--text=a"], ["text.txt is not an exported model"]),
    (["--model=ckpt/classification", "--text=a"], ["is not an exported model"]),
    ([MODEL, "--text=a", "--input_file=text.txt"], ["Several inputs were given"]),
    ([MODEL, "--question=a"], ["Give --context with --question or with --choice"]),
    ([MODEL, "--text=a", "--batch_size=0"], ["batch_size"]),
    ([MODEL, "--text=a", "--score"], ["no signature 'score'", "serving_default"]),
    ([MODEL, "--input_file=none.txt"], ["There is no file or folder 'none.txt'"]),
    (
        [MODEL, "--input_file=utf_16.txt"],
        ["utf_16.txt is UTF-16LE", "iconv -f UTF-16LE"],
    ),
    (
        [MODEL, "--input_file=texts.json"],
        ["texts.json contains JSON", "--input_format=jsonl", "stdin"],
    ),
    ([MODEL, "--input_file=empty.txt"], ["No text was given", "empty.txt"]),
    (["--model=graph_cut", "--text=a"], ["graph_cut"]),
    (["--model=data_flip", "--text=a"], ["data_flip/1 cannot be loaded"]),
    (
        ["--model=data_cut", "--text=a"],
        ["data_cut/1/variables/variables.data-00000-of-00001 cann"],
    ),
    (["--model=facts_removed", "--text=a"], ["There is no file", "weights.json"]),
    (
        ["--model=score_nan", "--text=a"],
        ["The output score of the model has NaN or infinite"],
    ),
    (
        ["--model=incomplete", "--text=a"],
        ["incomplete/2 is the newest version, but has no saved"],
    ),
    (
        [MODEL, "--context=a", "--question=b"],
        ["takes a list of texts for each of text"],
    ),
    (["--model=evil", "--text=a"], ["evil is refused", "WriteFile", "--trust=True"]),
]


def flip(content, place):
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def half(content):
    return content[: len(content) // 2]


# The file of an export that is changed, and the change; None removes the file.
DAMAGE = {
    "graph_cut": ("saved_model.pb", half),
    "data_flip": (
        "variables/variables.data-00000-of-00001",
        lambda content: flip(content, 40),
    ),
    "data_cut": ("variables/variables.data-00000-of-00001", half),
    "facts_removed": ("assets.extra/weights.json", None),
}


@pytest.fixture(scope="module")
def folder(exported, tmp_path_factory):
    """A folder with a checkpoint, its export, damaged copies of it, and odd files."""
    folder = tmp_path_factory.mktemp("exports")
    export_models.write_checkpoint("classification", folder / "ckpt")
    shutil.copytree(exported("classification"), folder / "served/1")
    for name, (file, change) in DAMAGE.items():
        place = folder / name / "1" / file
        shutil.copytree(folder / "served/1", folder / name / "1")
        content = place.read_bytes()
        place.unlink()
        if change:
            place.write_bytes(change(content))
    write_model(
        folder / "score_nan", lambda text: {"score": tf.fill([tf.size(text)], np.nan)}
    )
    (folder / "text.txt").write_text("a line\n")
    (folder / "empty.txt").write_text("")
    (folder / "texts.json").write_text('\n{"text": "a"}\n')
    (folder / "utf_16.txt").write_bytes("a text\nb text\n".encode("utf-16-le"))
    shutil.copytree(folder / "served", folder / "incomplete")
    (folder / "incomplete/2/variables").mkdir(parents=True)
    write_evil_model(folder / "evil")
    return folder


def write_evil_model(path):
    """Writes a SavedModel that writes the file evil.txt when it predicts."""

    def function(text):
        tf.io.write_file(str(path.parent / "evil.txt"), "content")
        return {"score": text}

    write_model(path, function)


def write_model(path, function):
    """Writes a SavedModel with a variable, facts, and its checksum."""
    module = tf.Module()
    module.variable = tf.Variable(1.0)
    spec = tf.TensorSpec([None], tf.string, name="text")
    concrete = tf.function(function, autograph=False).get_concrete_function(text=spec)
    tf.saved_model.save(module, str(path), signatures={"serving_default": concrete})
    names = ("saved_model.pb", "fingerprint.pb", "variables/variables.index")
    hashes = {
        name: hashlib.sha256((path / name).read_bytes()).hexdigest() for name in names
    }
    facts = {"files_sha256": hashes}
    facts["facts_sha256"] = sha256_of_values(facts)
    (path / "assets.extra").mkdir()
    write_json(path / "assets.extra/weights.json", facts)


@pytest.mark.medium
def test_bad_input_is_refused_in_one_line(folder):
    before = sorted(str(path) for path in folder.rglob("*"))
    rows = [
        *((EXPORT, *row) for row in EXPORT_ROWS),
        *((PREDICT, *row) for row in PREDICT_ROWS),
    ]
    results = run_mains(
        [(program, flags) for program, flags, _ in rows], cwd=folder, secs=60
    )
    failed = []
    for (_, flags, words), result in zip(rows, results, strict=True):
        try:
            # The line about a checkpoint that was read may come first.
            assert_refused(
                dataclasses.replace(result, err="\n".join(result.messages[-1:])), *words
            )
        except AssertionError as error:
            failed.append(f"{flags}: {error}")
    assert not failed, "\n\n".join(failed)
    assert sorted(str(path) for path in folder.rglob("*")) == before
