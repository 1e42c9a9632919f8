"""predict.py --format=projector: the folder that TensorBoard's projector reads."""

import pathlib

import numpy as np
import pytest
from model_file_checks import predictor
from run_programs import assert_refused, run_main
from tables_of_rows import write_rows
from tensorboard.plugins import base_plugin
from tensorboard.plugins.projector import projector_plugin

PREDICT = "bert_tf.run_scripts.predict"
FILES = {"metadata.tsv", "projector_config.pbtxt", "tensors.tsv"}


@pytest.fixture
def predict(exported):
    """A function that runs the program."""

    def run(*flags, kind="embedding"):
        flags = [f"--model={exported(kind)}", "--format=projector", *flags]
        return run_main(PREDICT, flags)[0]

    return run


def lines(path):
    """Returns the lines, as the projector splits them; it skips blank ones."""
    found = pathlib.Path(path).read_text("utf-8").removesuffix("\n").split("\n")
    assert all(line.strip() for line in found)
    return found


@pytest.mark.medium
def test_a_table_becomes_points_with_its_columns(predict, exported, here):
    texts = ["a b", "tab\there", "two\r\nlines", "", "猫"]
    rows = [{"text": text, "kind": f"k{n % 2}", "n": n} for n, text in enumerate(texts)]
    write_rows(pathlib.Path("in.jsonl"), rows)
    for _ in range(2):  # the second call replaces the folder
        result = predict("--input_file=in.jsonl", "--output_file=points")
        assert (result.code, result.out) == (0, ""), result.err
    assert {path.name for path in pathlib.Path("points").iterdir()} == FILES

    assert lines("points/metadata.tsv") == [
        "text\tkind\tn", "a b\tk0\t0", "tab here\tk1\t1", "two  lines\tk0\t2", "\tk1\t3",
        "猫\tk0\t4",
    ]  # fmt: skip
    vectors = [each["embedding"] for each in predictor(exported("embedding"))([*texts])]
    found = np.loadtxt("points/tensors.tsv", delimiter="\t")
    np.testing.assert_allclose(found, vectors, atol=1e-6)


def test_tensorboard_reads_the_folder(predict, exported, here):
    pathlib.Path("texts.txt").write_text("a b\n\nc\n")
    result = predict("--input_file=texts.txt", "--output_file=points")
    assert result.code == 0, result.err
    # A single column has no name; its empty text is a point too.
    assert lines("points/metadata.tsv") == ["a b", "(empty)", "c"]

    context = base_plugin.TBContext(logdir="points", multiplexer=None)
    plugin = projector_plugin.ProjectorPlugin(context)
    plugin._update_configs()
    (config,) = plugin._configs.values()
    (embedding,) = config.embeddings
    hidden = predictor(exported("embedding"))("a")["embedding"].size
    assert list(embedding.tensor_shape) == [3, hidden]
    assert embedding.metadata_path == "metadata.tsv"


def test_rows_with_other_columns(predict, here):
    pathlib.Path("in.jsonl").write_text(
        '{"text": "a", "kind": "x"}\n{"kind": "y", "text": "b"}\n{"text": "c"}\n'
    )
    result = predict("--input_file=in.jsonl", "--output_file=points")
    assert result.code == 0, result.err
    assert lines("points/metadata.tsv") == ["text\tkind", "a\tx", "b\ty", "c\t"]

    pathlib.Path("more.jsonl").write_text('{"text": "a"}\n{"text": "b", "kind": "x"}\n')
    assert_refused(
        predict("--input_file=more.jsonl", "--output_file=more"),
        "Row 2 has the column 'kind', and the first row does not",
    )
    assert not pathlib.Path("more").exists()

    # Neither the input nor a file that another program wrote is replaced.
    assert_refused(
        predict("--input_file=points/metadata.tsv", "--output_file=points"),
        "points/metadata.tsv would be replaced",
    )
    pathlib.Path("points/projector_config.pbtxt").unlink()
    assert_refused(
        predict("--text=a", "--output_file=points"), "would be replaced, but"
    )


@pytest.mark.medium
def test_bad_input(predict, here):
    pathlib.Path("other").mkdir()
    pathlib.Path("other/mine.txt").write_text("mine")
    text = "--text=a"
    assert_refused(predict(text), "writes a folder. Give --output_file")
    assert_refused(
        predict(text, "--output_file=other"),
        "other would be replaced, but contains mine.txt",
    )
    assert_refused(
        predict(text, "--output_file=points", kind="classification"),
        "for the vectors of a model of the task embedding. This one returns label",
    )
    assert_refused(
        predict(text, "--output_file=other/mine.txt"),
        "other/mine.txt is a file",
    )
    assert not pathlib.Path("points").exists()
    assert [path.name for path in pathlib.Path("other").iterdir()] == ["mine.txt"]
