"""TF_CONFIG, which names the machines of a run: what it must contain."""

import json
import math

import pytest
import tensorflow as tf
from refusals import refused_with

from bert_tf.training.tensorflow_step.strategy import make_strategy
from bert_tf.training.training_config import RuntimeConfig

RUNTIME = RuntimeConfig(distribution_strategy="multi_worker_mirrored")
EXAMPLE = 'for example {"cluster": {"worker": ["host1:port", "host2:port"]}, "task": '


@pytest.mark.parametrize(
    ("kinds", "task", "problem"),
    [
        ("chief worker", {"type": "ps", "index": 0}, "type must be chief or worker."),
        ("ps", {"type": "ps", "index": 0}, "cluster has ps, which it must not"),
        ("worker", {"type": "worker", "index": 1}, "index must be below the number"),
        ("worker", {"type": ["worker"], "index": 0}, "type must be worker."),
        (
            "worker",
            {"type": "worker", "index": math.inf},
            "cluster, task, type or index",
        ),
        ("ps worker", {"type": "worker", "index": 0}, "cluster has ps, which it must"),
        ("chief chief", {"type": "chief", "index": 0}, "chief must have one address."),
        ("chief worker", {"type": "worker", "index": 0}, None),
    ],
)
def test_a_value_is_accepted_or_refused(monkeypatch, kinds, task, problem):
    names = kinds.split()
    cluster = {name: ["a:1"] * names.count(name) for name in names}
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
