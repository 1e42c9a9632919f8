"""Losses, weights and moments of runs, compared with google-research/bert."""

import numpy as np
import tensorflow as tf
from golden_checkpoints import (
    GOLDEN,
    GOOGLE,
    assign_checkpoint,
    google_config,
    trajectory_of,
)

from bert_tf.modeling import BertClassifier, BertPretrainer
from bert_tf.pretraining.pretraining_objective import PretrainingObjective
from bert_tf.tasks.head_objective import HeadObjective
from bert_tf.training.step.objective import loss_and_metrics
from bert_tf.training.step.step_runner import StepRunner
from bert_tf.training.training_config import TrainingConfig


def make_runner(objective, trajectory):
    config = TrainingConfig(
        seed=0,
        global_batch_size=len(trajectory["input_ids"][0]),
        num_train_steps=int(trajectory["num_train_steps"]),
        num_warmup_steps=int(trajectory["num_warmup_steps"]),
        learning_rate=float(trajectory["learning_rate"]),
    )
    return StepRunner(objective, config)


def batches(trajectory, prefixes):
    """Returns an iterator of the batches of a run, of names with these prefixes."""
    names = [name for name in trajectory if name.startswith(prefixes)]
    arrays = {name: trajectory[name] for name in names}
    return iter(tf.data.Dataset.from_tensor_slices(arrays))


def train_one(run, iterator, step):
    result = run.train(iterator, step, 1)
    return result.sums, result.counts


def compare(checkpoint, objective, optimizer):
    reader = tf.train.load_checkpoint(str(checkpoint))
    for name, variable in {**objective.variables, **optimizer.slots}.items():
        if not reader.has_tensor(name):  # a variable without a gradient has no slots
            assert name.startswith("bert/pooler/")
            continue
        expected = reader.get_tensor(name)
        np.testing.assert_allclose(variable, expected, 0, 1e-4, err_msg=name)


def test_pretraining_follows_the_original():
    trajectory = trajectory_of("google_pretraining")
    objective = PretrainingObjective(BertPretrainer(google_config()))
    assign_checkpoint(objective.variables, GOOGLE / "init/bert_model.ckpt")
    run = make_runner(objective, trajectory)
    iterator = batches(trajectory, ("input", "segment", "masked", "next"))
    for step in range(len(trajectory["losses"])):
        values = loss_and_metrics(objective, *train_one(run, iterator, step))
        found = [values["masked_lm_loss"], values["next_sentence_loss"], values["loss"]]
        np.testing.assert_allclose(
            found, trajectory["losses"][step], atol=1e-4, err_msg=str(step)
        )
        if (count := step + 1) in (1, 10, 30):
            path = GOOGLE / f"step{count}/model.ckpt-{count}"
            compare(path, objective, run.optimizer)


def test_classifier_follows_the_original():
    golden = GOLDEN / "google_classifier"
    trajectory = trajectory_of("google_classifier")
    model = BertClassifier(google_config(), num_labels=3, classifier_dropout=0.0)
    objective = HeadObjective(model)
    assign_checkpoint(objective.variables, golden / "init/model.ckpt")
    run = make_runner(objective, trajectory)
    prefixes = ("input", "segment", "label")
    outputs = objective.outputs(next(batches(trajectory, prefixes)))
    for name in ("logits", "probabilities"):
        np.testing.assert_allclose(
            outputs[name], trajectory[f"first_batch_{name}"], atol=1e-5
        )
    iterator = batches(trajectory, prefixes)
    for step, expected in enumerate(trajectory["losses"]):
        loss = objective.loss(*train_one(run, iterator, step))
        np.testing.assert_allclose(loss, expected, atol=1e-4, err_msg=str(step))
    compare(golden / "step20/model.ckpt-20", objective, run.optimizer)
