"""An exported classifier in a process without bert_tf, and in predict.py."""

import json
import os
import subprocess
import sys
import threading

import export_models
import numpy as np
import pytest
from run_programs import assert_refused, run_main, run_mains

from bert_tf.export.served import load_served
from bert_tf.pretrained import load

LABELS = export_models.LABELS
TEXTS = ["a b", "", "Abc défg h zzz", "a " * 50]
PREDICT = "bert_tf.run_scripts.predict"
CLIENT = """
import json, sys, tensorflow as tf, tensorflow_text
signatures = tf.saved_model.load(sys.argv[1]).signatures
outputs = signatures["serving_default"](text=tf.constant(json.loads(sys.argv[2])))
assert not any(name.startswith("bert_tf") for name in sys.modules)
print(json.dumps([outputs["probabilities"].numpy().tolist(),
                  [label.decode() for label in outputs["label"].numpy()]]))
"""


@pytest.fixture
def folder(exported):
    return exported("classification")


def expected_probabilities(folder, texts):
    served = load_served(load(f"{folder}/../../classification"))
    return served.from_texts(texts)["probabilities"].numpy()


def test_a_process_without_bert_tf_gives_the_same_outputs(folder):
    done = subprocess.run(
        [sys.executable, "-I", "-c", CLIENT, folder, json.dumps(TEXTS)],
        capture_output=True, text=True, check=True, cwd="/",
    )  # fmt: skip
    probabilities, labels = json.loads(done.stdout)
    np.testing.assert_allclose(
        probabilities, expected_probabilities(folder, TEXTS), atol=1e-6
    )
    np.testing.assert_allclose(np.sum(probabilities, axis=1), 1, atol=1e-6)
    assert labels == [LABELS[int(row)] for row in np.argmax(probabilities, axis=1)]
    assert len(set(map(tuple, probabilities))) > 1


def test_predict_prints_the_outputs_of_the_model(folder, tmp_path):
    texts = ["a b", "", "a b", ""]
    expected = expected_probabilities(folder, texts)
    (tmp_path / "lines").write_text("\n".join(texts) + "\n")
    several = [f"--input_file={tmp_path}/lines", "--format=jsonl", "--batch_size=3"]
    plain, json_lines = run_main(
        PREDICT, [f"--model={folder}/..", "--text=a b"], [f"--model={folder}", *several]
    )
    label, probability, text = plain.out.rstrip("\n").split("\t")
    assert (label, text) == (LABELS[expected[0].argmax()], "a b")
    assert float(probability) == pytest.approx(expected[0].max(), abs=1e-4)
    records = [json.loads(row) for row in json_lines.out.splitlines()]
    assert [record["text"] for record in records] == texts
    found = [[record["probabilities"][name] for name in LABELS] for record in records]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_predict_reads_pipes_and_names_the_line_with_invalid_utf8(folder, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(
        target=(tmp_path / "pipe").write_bytes, args=[b"a b\nc\n"]
    )
    writer.start()
    (read,) = run_mains([(PREDICT, [f"--model={folder}"])], stdin=tmp_path / "pipe")
    writer.join()
    assert read.code == 0, read.err
    assert [line.split("\t")[-1] for line in read.out.splitlines()] == ["a b", "c"]
    (tmp_path / "latin").write_bytes("a\r\n\nb\ncafé".encode("latin-1"))
    (refused,) = run_mains([(PREDICT, [f"--model={folder}"])], stdin=tmp_path / "latin")
    assert_refused(refused, "stdin is not UTF-8: byte 0xe9 in line 4.")
