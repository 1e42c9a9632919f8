"""Damaged and changed checkpoints of training: one line wherever they are read."""

import shutil

import pytest
from json_files import edit_json
from refusals import refused_with
from tiny_bert import SPECIAL

from bert_tf.config import BertConfig
from bert_tf.conversion import read_weights
from bert_tf.modeling import BertEncoder, arrays_by_name
from bert_tf.storage import safetensors_format, weights
from bert_tf.training.lifecycle import run_state
from bert_tf.training.lifecycle.run_folder import RunFolder
from bert_tf.training.training_config import to_json_dict

VOCABULARY = [*SPECIAL, "a"]
CONFIG = BertConfig(6, 8, 1, 2, 8, max_position_embeddings=16, type_vocab_size=2)
STEP = "checkpoints/step-00000010"
REPLACED = "is damaged or was replaced: its SHA-256 differs from the one in state.json"


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    """The output folder of a run with one checkpoint."""
    run = tmp_path_factory.mktemp("valid")
    step = run / STEP
    arrays, facts = (
        arrays_by_name(BertEncoder(CONFIG, seed=1)),
        {"step": 10, "labels": ["a", "b"]},
    )
    weights.write_into(str(step), arrays, CONFIG.to_dict(), VOCABULARY, True, facts)
    (step / "optimizer.safetensors").write_bytes(safetensors_format.to_safetensors({}))
    for name in ("training_config.json", "runtime_config.json"):
        (step / name).write_text("{}")
    run_state.write_state(str(step), to_json_dict(run_state.RunState(10)))
    return run


# Each function returns a change of a checkpoint: a function of its folder.


def edit(name, **values):
    """Changes values in a JSON file; None removes a key."""

    return lambda folder: edit_json(folder / name, **values)


def older(**values):
    """Changes state.json.

    Removes its checksum, as if an older version had written it.
    """
    return edit("state.json", facts_sha256=None, **values)


def put(name, content):
    return lambda folder: (folder / name).write_text(content)


def remove(name):
    return lambda folder: (folder / name).unlink()


# A row: the change, words of the message.
ROWS = [
    (edit("bert_config.json", hidden_act="relu"), "bert_config.json", REPLACED),
    (edit("runtime_config.json", log_steps=3), "runtime_config.json", REPLACED),
    (put("vocab.txt", "[PAD]\n"), "vocab.txt", REPLACED),
    (
        remove("state.json"),
        "is incomplete: a checkpoint of training has the file state.json",
    ),
    (remove("optimizer.safetensors"), "There is no file", "optimizer.safetensors"),
    (
        put("state.json", "[1]"),
        "state.json is damaged: it must contain one JSON object",
    ),
    (edit("state.json", step=11), "state.json", REPLACED),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[-1][:50])
def test_changed_checkpoints_are_refused(valid, tmp_path, row, caplog):
    change, *words = row
    run = tmp_path / "run"
    shutil.copytree(valid, run)
    change(run / STEP)
    with refused_with(*words):
        read_weights(str(run / STEP))
    assert RunFolder(str(run)).latest_checkpoint() is None
    assert all(word in caplog.text for word in words), caplog.text


def test_valid_checkpoints_are_read(valid, tmp_path):
    assert read_weights(str(valid / STEP)).global_step == 10
    shutil.copytree(valid / STEP, tmp_path / "renamed")
    assert read_weights(str(tmp_path / "renamed")).global_step == 10
    older_run = tmp_path / "run"
    shutil.copytree(valid, older_run)
    older(elapsed_secs=None, time_is_up=None, unlogged=None)(older_run / STEP)
    assert RunFolder(str(older_run)).latest_checkpoint() == str(older_run / STEP)
    assert run_state.read_state(str(older_run / STEP)) == run_state.RunState(10)


def test_every_value_of_the_state_is_read_back(tmp_path):
    best = run_state.BestEvaluation(float("nan"), 5, 2)
    totals = run_state.StepTotals(
        3, {"loss": 1.5}, {"weight": 3.0}, {"gradient_norm": 0.5}
    )
    written = run_state.RunState(10, 1, best, 2.5, True, totals)
    run_state.write_state(str(tmp_path), to_json_dict(written))
    read = run_state.read_state(str(tmp_path))
    assert repr(read) == repr(written)  # NaN is not equal to NaN
