"""TF_CONFIG, which names the machines of a run: what it must contain."""

import json

import pytest
import tensorflow as tf
from refusals import refused_with

from bert_tf.training.strategy import make_strategy
from bert_tf.training.training_config import RuntimeConfig

RUNTIME = RuntimeConfig(distribution_strategy="multi_worker_mirrored")
EXAMPLE = 'for example {"cluster": {"worker": ["host1:port", "host2:port"]}, "task": '


@pytest.mark.parametrize(
    ("kinds", "task", "problem"),
    [
        ("chief worker", {"type": "ps", "index": 0}, "type must be chief or worker."),
        ("ps", {"type": "ps", "index": 0}, "type must be worker, and in cluster."),
        ("worker", {"type": "worker", "index": 1}, "index must be below the number"),
        ("chief worker", {"type": "worker", "index": 0}, None),
    ],
)
def test_a_value_is_accepted_or_refused(monkeypatch, kinds, task, problem):
    cluster = {name: ["a:1"] for name in kinds.split()}
    config = json.dumps({"cluster": cluster, "task": task})
    monkeypatch.setenv("TF_CONFIG", config)
    if problem:
        with refused_with(EXAMPLE, f"Received: {config!r}, where {problem}"):
            make_strategy(RUNTIME)
        return
    # TensorFlow would start a server.
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", lambda: "made")
    assert make_strategy.__wrapped__(RUNTIME) == "made"


def test_values_of_reports_are_refused(monkeypatch, test_data):
    path = test_data / "data/public_cases/tf_config.txt"
    for line in path.read_text().splitlines():
        monkeypatch.setenv("TF_CONFIG", line)
        with refused_with(EXAMPLE, f"Received: {line!r}, where "):
            make_strategy(RUNTIME)
