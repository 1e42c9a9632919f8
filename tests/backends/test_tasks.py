"""Fine-tuning on JAX, compared with TensorFlow from equal weights, for each kind of run."""

import shutil

import keras
import pytest
import task_runs
from golden_checkpoints import assert_close_arrays
from json_files import read_json, write_json
from linear_runs import log_entries
from named_texts import TAGS, VOCABULARY, WORDS, sentences
from numpy.testing import assert_allclose
from run_programs import newest
from safetensors.numpy import load_file
from squad_data import answers_of, data_of, paragraph_of
from tiny_bert import small_config

import bert_tf

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        keras.backend.backend() != "jax", reason="set KERAS_BACKEND=jax"
    ),
]
STEPS = 2  # on TensorFlow, before both backends continue


def write_data(folder, split, count):
    """Writes the same sentences as texts, choices, tagged words and contexts."""
    found = sentences(count, count)
    lines = ["sentence\tlabel\twords\tnames"]
    choices = ["sent1,sent2,ending0,ending1,ending2,label"]
    tagged, paragraphs = [], []
    for number, words in enumerate(found):
        text, names = " ".join(words), sorted({"ann", "bob"} & set(words))
        lines.append(f"{text}\t{'ann' in words}\t{len(words)}\t{','.join(names)}")
        endings = [WORDS[(number + shift) % len(WORDS)] for shift in range(3)]
        choices.append(f"{text},,{','.join(endings)},{number % 3}")
        tagged.append("\n".join(f"{word} {TAGS.get(word, 'O')}" for word in words))
        question = (str(number), "in", answers_of(words[0]))
        paragraphs.append(paragraph_of(text, question))

    (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    (folder / f"{split}.csv").write_text("\n".join(choices) + "\n")
    (folder / f"{split}.conll").write_text("\n\n".join(tagged) + "\n")
    write_json(folder / f"{split}.json", data_of(*paragraphs))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with all runs of both backends."""
    folder = tmp_path_factory.mktemp("tasks")
    for name in ("start", "teachers"):
        (folder / name).mkdir()
        write_data(folder / name, "train", 60)
        write_data(folder / name, "dev", 20)
        config = small_config(
            len(VOCABULARY),
            hidden_size=16,
            num_hidden_layers=2,
            initializer_range=0.2,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        encoder = bert_tf.BertEncoder(config, seed=len(name))
        tokenizer = bert_tf.BertTokenizer(VOCABULARY, do_lower_case=True)
        bert_tf.save_checkpoint(encoder, tokenizer, folder / name / "model")

    teachers = ("classification", "entities")
    task_runs.start("tensorflow", folder / "teachers", teachers)
    task_runs.start("tensorflow", folder / "start", task_runs.RUNS, STEPS)
    for backend in ("tensorflow", "jax"):
        # Each backend computes the outputs of frozen encoders and of teachers.
        ignored = shutil.ignore_patterns("cache", "features")
        shutil.copytree(folder / "start", folder / backend, ignore=ignored)
        task_runs.start(backend, folder / backend, task_runs.RUNS)
    return folder


def weights(run):
    return load_file(newest(run, "model.safetensors"))


@pytest.mark.parametrize("name", task_runs.RUNS)
def test_a_run_ends_with_the_weights_of_tensorflow(folder, name):
    found, expected = (folder / backend / name for backend in ("jax", "tensorflow"))
    first = weights(folder / "start" / name)
    assert any((first[key] != weights(found)[key]).any() for key in first)
    largest = max(abs(array).max() for array in weights(expected).values())
    assert_close_arrays(weights(found), weights(expected), 1e-5 * largest)


@pytest.mark.parametrize("name", task_runs.RUNS)
def test_losses_and_results_are_those_of_tensorflow(folder, name):
    found, expected = (folder / backend / name for backend in ("jax", "tensorflow"))
    losses = [
        [entry["loss"] for entry in log_entries(run, "train")]
        for run in (found, expected)
    ]
    assert_allclose(*losses, 1e-4)
    rows = [read_json(run / "results.json") for run in (found, expected)]
    results = [row.pop("results") for row in rows]
    assert results[0] == pytest.approx(results[1], rel=1e-4)
    numbers = [[row.pop(name) for name in ("value", "baseline")] for row in rows]
    for number, right in zip(*numbers, strict=True):
        assert number == (right and pytest.approx(right, rel=1e-4))
    assert rows[0] == rows[1]
