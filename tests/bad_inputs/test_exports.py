"""Exports and predictions refuse wrong flags, damaged files and graphs with effects."""

import dataclasses
import shutil

import export_models
import numpy as np
import pytest
import tensorflow as tf
from json_files import write_json
from run_programs import assert_refused, run_mains
from shared_exports import exported, faster_exports

from bert_tf.storage import sealed

__all__ = ["exported", "faster_exports"]
EXPORT, PREDICT = "bert_tf.run_scripts.export_model", "bert_tf.run_scripts.predict"
EXPORT_BASE = "--checkpoint=ckpt/classification --export_dir=new"
# The flags of export_model, with paths in the folder of the test, which replace those of
# `EXPORT_BASE`, and words of the message.
EXPORT_ROWS = [
    ("--export_dir=text.txt", "text.txt is a file", "a new folder"),
    ("--export_dir=.", ". contains other files", "new folder"),
    ("--max_seq_length=0", "--max_seq_length must be from"),
    ("--tflite_length=8", "--tflite_length needs format"),
    ("--precision=int4", "--precision must be", "float32"),
    ("--dev_data=none.tsv", "none.tsv"),
    ("--checkpoint=served", "served", "no checkpoint"),
]
# The same for predict, with the flag --model=served.
PREDICT_ROWS = [
    ("--model=none --text=a", "There is no file or folder 'none'"),
    ("--model=http://host/a --text=a", "http://host/a is not an exported model"),
    ("--model=text.txt --text=a", "text.txt is not an exported model"),
    ("--model=ckpt/classification --text=a", "is not an exported model"),
    ("--text=a --input_file=text.txt", "Several inputs were given"),
    ("--question=a", "Give --context with --question or with --choice"),
    ("--text=a --batch_size=0", "batch_size"),
    ("--input_file=none.txt", "There is no file or folder 'none.txt'"),
    ("--input_file=utf_16.txt", "utf_16.txt is UTF-16LE", "iconv -f UTF-16LE"),
    ("--input_file=empty.txt", "No text was given", "empty.txt"),
    ("--model=graph_cut --text=a", "graph_cut"),
    ("--model=data_flip --text=a", "data_flip/1 cannot be loaded"),
    (
        "--model=data_cut --text=a",
        "data_cut/1/variables/variables.data-00000-of-00001 cann",
    ),
    ("--model=facts_removed --text=a", "There is no file", "weights.json"),
    ("--model=score_nan --text=a", "The output score of the model has NaN or infinite"),
    (
        "--model=incomplete --text=a",
        "incomplete/2 is the newest version, but has no saved",
    ),
    ("--model=evil --text=a", "evil is refused", "WriteFile", "--trust=True"),
]


def flip(content):
    return content[:40] + bytes([content[40] ^ 1]) + content[41:]


def half(content):
    return content[: len(content) // 2]


# The file of an export that is changed, and the change; None removes the file.
DAMAGE = {
    "graph_cut": ("saved_model.pb", half),
    "data_flip": ("variables/variables.data-00000-of-00001", flip),
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
    (folder / "utf_16.txt").write_bytes("a text\nb text\n".encode("utf-16-le"))
    shutil.copytree(folder / "served", folder / "incomplete")
    (folder / "incomplete/2/variables").mkdir(parents=True)
    write_model(folder / "evil", write_file)
    return folder


def write_file(text):
    tf.io.write_file("evil.txt", "content")
    return {"score": text}


def write_model(path, function):
    """Writes a SavedModel with a variable, facts, and its checksum."""
    module = tf.Module()
    module.variable = tf.Variable(1.0)
    spec = tf.TensorSpec([None], tf.string, name="text")
    concrete = tf.function(function, autograph=False).get_concrete_function(text=spec)
    tf.saved_model.save(module, str(path), signatures={"serving_default": concrete})
    names = ("saved_model.pb", "fingerprint.pb", "variables/variables.index")
    facts = sealed.seal({"files_sha256": sealed.checksums(str(path), names)})
    (path / "assets.extra").mkdir()
    write_json(path / "assets.extra/weights.json", facts)


@pytest.mark.medium
def test_bad_input_is_refused_in_one_line(folder):
    before = sorted(str(path) for path in folder.rglob("*"))
    commands = [
        *((EXPORT, f"{EXPORT_BASE} {flags}".split()) for flags, *_ in EXPORT_ROWS),
        *((PREDICT, f"--model=served {flags}".split()) for flags, *_ in PREDICT_ROWS),
    ]
    results = run_mains(commands, cwd=folder, secs=60)
    for (_, *words), result in zip(EXPORT_ROWS + PREDICT_ROWS, results, strict=True):
        # The line about a checkpoint that was read may come first.
        last = dataclasses.replace(result, err=result.messages[-1])
        assert_refused(last, *words)
    assert sorted(str(path) for path in folder.rglob("*")) == before
