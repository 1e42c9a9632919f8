"""An exported SavedModel whose graph was changed is refused, unless it is trusted."""

import pathlib
import shutil

import export_models
import pytest
from tensorflow.core.protobuf import saved_model_pb2

import bert_tf
from bert_tf.errors import InputError


def test_a_changed_graph_is_refused(exported, tmp_path):
    folder = pathlib.Path(shutil.copytree(exported("classification"), tmp_path / "copy"))
    path = folder / "saved_model.pb"
    model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    model.meta_graphs[0].meta_info_def.tensorflow_version = "1"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match=r"saved_model\.pb was changed after the export"):
        bert_tf.Predictor(folder)
    assert bert_tf.Predictor(folder, trust=True)("a")["label"] in export_models.LABELS
