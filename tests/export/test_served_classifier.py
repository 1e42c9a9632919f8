"""An exported classifier gives the same outputs in a process without bert_tf."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from run_programs import assert_refused, run_main, run_mains

from bert_tf.config import BertConfig
from bert_tf.export import exporter
from bert_tf.export.served import load_served
from bert_tf.files import MAX_LINE_BYTES
from bert_tf.modeling import BertClassifier, variables_by_name
from bert_tf.pretrained import load
from bert_tf.weights import write_weights

ROOT = pathlib.Path(__file__).parents[2]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", *(f"##{c}" for c in "abc")]
TEXTS = ["a b", "", "Abc défg h zzz", "a " * 50]
CONFIG = BertConfig(
    vocab_size=len(VOCABULARY), hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
    intermediate_size=16, max_position_embeddings=16, type_vocab_size=2, initializer_range=0.5,
)  # fmt: skip

CLIENT = """
import json, sys, numpy as np, tensorflow as tf, tensorflow_text
folder, texts, pair = sys.argv[1], tf.constant(json.loads(sys.argv[2])), sys.argv[3] == "True"
signatures = tf.saved_model.load(folder).signatures
inputs = {"text_a": texts, "text_b": texts[::-1]} if pair else {"text": texts}
outputs = signatures["serving_default"](**inputs)
assert not any(name.startswith("bert_tf") for name in sys.modules)
print(json.dumps([outputs["probabilities"].numpy().tolist(),
                  [label.decode() for label in outputs["label"].numpy()]]))
"""


@pytest.fixture(
    scope="module", params=[False, pytest.param(True, marks=pytest.mark.slow)], ids=["text", "pair"]
)
def checkpoint(request, tmp_path_factory):
    model = BertClassifier(CONFIG, num_labels=3)
    arrays = {name: np.asarray(v.value) for name, v in variables_by_name(model).items()}
    rng = np.random.default_rng(0)
    arrays["output_bias"] = rng.normal(size=3).astype(np.float32)
    facts = {"task": "custom", "labels": ["x", "y", "ž"], "pair": request.param}
    folder = str(tmp_path_factory.mktemp("model") / "checkpoint")
    write_weights(
        folder, arrays, CONFIG.to_dict(), VOCABULARY, True, {**facts, "max_seq_length": 12}
    )
    return folder


@pytest.fixture(scope="module")
def served(checkpoint):
    """The folder of the versions of the exported model, with version 1."""
    folder = f"{checkpoint}_served"
    assert exporter.export(checkpoint, folder) == f"{folder}/1"
    return folder


def test_a_process_without_bert_tf_gives_the_same_outputs(checkpoint, served):
    live = load_served(load(checkpoint))
    pair = len(live.text_names) == 2
    expected = live.from_texts(TEXTS, *([TEXTS[::-1]] if pair else []))
    done = subprocess.run(
        [sys.executable, "-I", "-c", CLIENT, f"{served}/1", json.dumps(TEXTS), str(pair)],
        capture_output=True, text=True, check=True, cwd="/",
    )  # fmt: skip
    probabilities, labels = json.loads(done.stdout)
    np.testing.assert_allclose(probabilities, expected["probabilities"], atol=1e-6)
    np.testing.assert_allclose(np.sum(probabilities, axis=1), 1, atol=1e-6)
    names = ["x", "y", "ž"]
    assert labels == [names[int(row)] for row in np.argmax(probabilities, axis=1)]
    assert len(set(map(tuple, probabilities))) > 1
    if not pair:
        assert exporter.export(checkpoint, served) == f"{served}/2"


def test_padding_and_batching_do_not_change_the_outputs(checkpoint):
    live = load_served(load(checkpoint))
    columns = [TEXTS, TEXTS[::-1]][: len(live.text_names)]
    together = live.from_texts(*columns)["probabilities"]
    for index in range(len(TEXTS)):
        alone = live.from_texts(*([column[index]] for column in columns))["probabilities"]
        np.testing.assert_allclose(alone[0], together[index], atol=1e-5)


def test_predict_prints_the_outputs_of_the_model(checkpoint, served, tmp_path):
    live = load_served(load(checkpoint))
    folder = f"{served}/1"
    pair = len(live.text_names) == 2
    line, empty = ("a b ||| c", " ||| ") if pair else ("a b", "")
    columns = [["a b", "", "a b", ""], ["c", "", "c", ""]][: len(live.text_names)]
    expected = live.from_texts(*columns)["probabilities"].numpy()
    lines = [line, empty, line, empty]
    (tmp_path / "lines").write_text("\n".join(lines) + "\n")
    (tmp_path / "blank").write_text("a\tb\n\nb\ta")
    (tmp_path / "nothing").write_text("")
    several = [f"--input_file={tmp_path}/lines", "--format=jsonl", "--batch_size=3"]
    plain, json_lines, blank, empty_file, empty_stdin = run_main(
        "bert_tf.run_scripts.predict",
        [f"--model={served}", f"--text={line}"],
        [f"--model={folder}", *several],
        [f"--model={folder}", f"--input_file={tmp_path}/blank"],
        [f"--model={folder}", f"--input_file={tmp_path}/nothing"],
        [f"--model={folder}"],
    )
    label, probability, text = plain.out.rstrip("\n").split("\t")
    assert (label, text) == (["x", "y", "ž"][expected[0].argmax()], line)
    assert float(probability) == pytest.approx(expected[0].max(), abs=1e-4)
    records = [json.loads(row) for row in json_lines.out.splitlines()]
    assert [record["text"] for record in records] == lines
    found = [[record["probabilities"][name] for name in ("x", "y", "ž")] for record in records]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert_refused(empty_file, "No text was given", f"{tmp_path}/nothing is empty")
    assert_refused(empty_stdin, "No text was given", "stdin is empty")
    if pair:
        assert_refused(blank, "Text 2: the model takes pairs", "first ||| second")
    else:
        answered = [row.split("\t", 2)[2] for row in blank.out.splitlines()]
        assert answered == ["a\tb", "", "b\ta"]


@pytest.mark.parametrize("checkpoint", [False], indirect=True, ids=["text"])
def test_predict_reads_named_pipes_and_refuses_endless_lines(served, tmp_path):
    program = f"{sys.executable} -m bert_tf.run_scripts.predict --model={served}"
    lines = r"printf 'a b\nc\n'"
    for command in (f"{program} --input_file=<({lines})", f"{lines} | {program}"):
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert [line.split("\t")[-1] for line in done.stdout.splitlines()] == ["a b", "c"]
    (tmp_path / "endless").write_bytes(b"a" * MAX_LINE_BYTES)
    program = "bert_tf.run_scripts.predict"
    (endless,) = run_mains([(program, [f"--model={served}"])], stdin=tmp_path / "endless")
    assert_refused(endless, "Line 1 of stdin has 67 MB or more")
    (zeros,) = run_main(program, [f"--model={served}", "--input_file=/dev/zero"])
    assert_refused(zeros, "/dev/zero is not UTF-8 text")


@pytest.mark.parametrize("checkpoint", [False], indirect=True, ids=["text"])
def test_predict_reports_the_line_of_stdin_with_invalid_utf8(served):
    folder = f"{served}/1"
    done = subprocess.run(
        [sys.executable, "-m", "bert_tf.run_scripts.predict", f"--model={folder}"],
        input="a\r\n\nb\ncafé".encode("latin-1"), capture_output=True, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 2
    last = done.stderr.decode().splitlines()[-1]
    assert last.startswith("error: stdin is not UTF-8: byte 0xe9 in line 4.")
