"""Losses, weights and moments of runs, compared with google-research/bert."""

import pathlib

import numpy as np
import tensorflow as tf
from json_files import read_json

from bert_tf.config import BertConfig
from bert_tf.modeling import BertClassifier, BertPretrainer
from bert_tf.pretraining.pretraining_objective import PretrainingObjective
from bert_tf.tasks.head_objective import HeadObjective
from bert_tf.training.step.objective import loss_and_metrics
from bert_tf.training.tensorflow_step.step_runner import TensorFlowStepRunner
from bert_tf.training.training_config import TrainingConfig

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"


def make_runner(objective, trajectory):
    config = TrainingConfig(
        seed=0,
        global_batch_size=len(trajectory["input_ids"][0]),
        num_train_steps=int(trajectory["num_train_steps"]),
        num_warmup_steps=int(trajectory["num_warmup_steps"]),
        learning_rate=float(trajectory["learning_rate"]),
    )
    return TensorFlowStepRunner(objective, config)


def load(variables, checkpoint):
    reader = tf.train.load_checkpoint(str(checkpoint))
    for name, variable in variables.items():
        variable.assign(reader.get_tensor(name))


def batches(trajectory, names):
    return tf.data.Dataset.from_tensor_slices(
        {name: trajectory[name] for name in names}
    )


def train_one(run, iterator, step):
    result = run.train(iterator, step, 1)
    return result.sums, result.counts


def compare(checkpoint, objective, optimizer):
    reader = tf.train.load_checkpoint(str(checkpoint))
    for name, variable in {**objective.variables, **optimizer.slots}.items():
        if not reader.has_tensor(name):  # a variable without a gradient has no slots
            assert name.startswith("bert/pooler/")
            continue
        np.testing.assert_allclose(
            np.asarray(variable),
            reader.get_tensor(name),
            rtol=0,
            atol=1e-4,
            err_msg=name,
        )


def test_pretraining_follows_the_original():
    golden = GOLDEN / "google_pretraining"
    trajectory = dict(np.load(golden / "trajectory.npz"))
    config = BertConfig.from_dict(read_json(golden / "bert_config.json"))
    objective = PretrainingObjective(BertPretrainer(config))
    load(objective.variables, golden / "init/bert_model.ckpt")
    run = make_runner(objective, trajectory)
    names = [
        name
        for name in trajectory
        if name.startswith(("input", "segment", "masked", "next"))
    ]
    iterator = iter(batches(trajectory, names))
    for step in range(len(trajectory["losses"])):
        values = loss_and_metrics(objective, *train_one(run, iterator, step))
        found = [values["masked_lm_loss"], values["next_sentence_loss"], values["loss"]]
        np.testing.assert_allclose(
            found, trajectory["losses"][step], atol=1e-4, err_msg=str(step)
        )
        if step + 1 in (1, 10, 30):
            compare(
                golden / f"step{step + 1}/model.ckpt-{step + 1}",
                objective,
                run.optimizer,
            )


def test_classifier_follows_the_original():
    golden = GOLDEN / "google_classifier"
    trajectory = dict(np.load(golden / "trajectory.npz"))
    config_path = GOLDEN / "google_pretraining/bert_config.json"
    config = BertConfig.from_dict(read_json(config_path))
    objective = HeadObjective(
        BertClassifier(config, num_labels=3, classifier_dropout=0.0)
    )
    load(objective.variables, golden / "init/model.ckpt")
    run = make_runner(objective, trajectory)
    names = ["input_ids", "input_mask", "segment_ids", "label_ids"]
    outputs = objective.outputs(next(iter(batches(trajectory, names))))
    for name in ("logits", "probabilities"):
        np.testing.assert_allclose(
            outputs[name], trajectory[f"first_batch_{name}"], atol=1e-5
        )
    iterator = iter(batches(trajectory, names))
    for step, expected in enumerate(trajectory["losses"]):
        loss = objective.loss(*train_one(run, iterator, step))
        np.testing.assert_allclose(loss, expected, atol=1e-4, err_msg=str(step))
    compare(golden / "step20/model.ckpt-20", objective, run.optimizer)
