"""An exported SavedModel whose facts, graph or variables were changed or damaged is refused."""

import hashlib
import json
import pathlib
import shutil

import export_models
import pytest
from tensorflow.core.protobuf import saved_model_pb2

import bert_tf
from bert_tf.errors import InputError


@pytest.fixture
def copy(exported, tmp_path):
    """A function that copies an exported model."""

    def of(kind):
        return pathlib.Path(shutil.copytree(exported(kind), tmp_path / kind))

    return of


def change_facts(folder, **changes):
    """Changes facts, and their checksum if it is not among the changes."""
    path = folder / "assets.extra/weights.json"
    facts = json.loads(path.read_text()) | changes
    if "facts_sha256" not in changes:
        del facts["facts_sha256"]
        content = json.dumps(facts, sort_keys=True).encode()
        facts["facts_sha256"] = hashlib.sha256(content).hexdigest()
    path.write_text(json.dumps(facts))


@pytest.mark.parametrize(
    "changes", [{"max_seq_length": 3}, {"labels": ["a", "b", "c"]}, {"further": 1}]
)
def test_changed_facts_are_refused(copy, changes):
    folder = copy("classification")
    change_facts(folder)
    bert_tf.Predictor(folder)  # the file may be written again with the same values
    before = json.loads((folder / "assets.extra/weights.json").read_text())["facts_sha256"]
    change_facts(folder, **changes, facts_sha256=before)
    with pytest.raises(InputError, match=r"weights.json was changed .* not state its SHA-256"):
        bert_tf.Predictor(folder)


def test_a_changed_graph_is_refused(copy):
    folder = copy("classification")
    path = folder / "saved_model.pb"
    model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    model.meta_graphs[0].meta_info_def.tensorflow_version = "1"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match=r"saved_model\.pb was changed after the export"):
        bert_tf.Predictor(folder)
    assert bert_tf.Predictor(folder, trust=True)("a")["label"] in export_models.LABELS


def test_two_graphs_in_one_file_are_refused(copy):
    folder = copy("regression")
    path = folder / "saved_model.pb"
    path.write_bytes(path.read_bytes() * 2)  # repeated fields of both are joined
    with pytest.raises(InputError, match=r"is damaged, or is not a SavedModel of TensorFlow 2"):
        bert_tf.Predictor(folder)
