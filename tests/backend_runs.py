"""Short pretraining runs of a tiny BERT on the backend that KERAS_BACKEND names.

As a program, this module takes a JSON list of runs and executes them in sequence. JAX
has eight virtual devices. Each run saves its final weights as `<folder>/weights.npz`.
"""

import functools
import json
import os
import signal
import subprocess
import sys

import layout_runs
import numpy as np
import vector_runs

RUN = {
    "task": "pretraining", "devices": 1, "steps": 12, "model": {}, "training": {},
    "runtime": {}, "weights": "", "kill": "",
    "records": "",
}  # fmt: skip
BATCH = layout_runs.BATCH
TAGS = 3
LOSSES = ("contrastive", "cosent")


MODEL = {
    "vocab_size": layout_runs.VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": layout_runs.LENGTH,
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def start(backend, specs):
    """Executes the runs in one process on a backend, and returns its exit code."""
    return begin(backend, specs).wait()


def begin(backend, specs, devices=8):
    """Starts a process that executes the runs."""
    runs = [{**RUN, **spec, "folder": str(spec["folder"])} for spec in specs]
    variables = {
        "KERAS_BACKEND": backend,
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "NPROC": "32",
    }
    environment = {**os.environ, **variables}
    command = [sys.executable, __file__, json.dumps(runs)]
    return subprocess.Popen(command, env=environment)


def make_objective(spec, config, recompute, seed, dtype):
    """Returns the objective of a run: pretraining, or tagging, without a pooler."""
    from bert_tf.modeling import BertPretrainer, BertTagger
    from bert_tf.pretraining.pretraining_objective import PretrainingObjective
    from bert_tf.tasks.ner.ner_task import NerObjective

    options = {"recompute": recompute, "seed": seed, "dtype": dtype}
    if spec["task"] in LOSSES:
        return vector_runs.make_objective(spec["task"], config, **options)
    if spec["task"] == "pretraining":
        return PretrainingObjective(BertPretrainer(config, **options))
    objective = NerObjective(BertTagger(config, TAGS, 0.0, **options))
    if spec["task"] == "lora":
        query = objective.model.bert.blocks[0].attention.query
        query.kernel.assign(np.eye(MODEL["hidden_size"]))  # it is not saved
        query.enable_lora(rank=2)
        kernels = {"a": query.lora_kernel_a, "b": query.lora_kernel_b}
        known = objective.variables.items()
        others = {name: variable for name, variable in known if variable.trainable}
        objective.variables = {**others, **kernels}
    return objective


def batches(spec):
    """Returns an infinite dataset of batches for a run."""
    pairs = layout_runs.batches()
    if spec["task"] in LOSSES:
        return pairs.map(vector_runs.of_texts)
    if spec["task"] == "pretraining":
        return pairs
    # A tag, from 1, for each token.
    return pairs.map(
        lambda batch: {
            **batch,
            "label_ids": batch["input_mask"] * (batch["input_ids"] % TAGS + 1),
        }
    )


def kill_at(moment):
    """Ends this process in step 6, or while the first checkpoint is written."""
    from bert_tf.storage import files
    from bert_tf.training.jax_step.step_runner import JaxStepRunner

    train, write = JaxStepRunner.train, files.write_bytes

    def train_or_die(self, iterator, step, steps, **options):
        if step >= 6:
            os.kill(os.getpid(), signal.SIGKILL)
        return train(self, iterator, step, steps, **options)

    def write_or_die(path, data):
        if "optimizer" in path:
            os.kill(os.getpid(), signal.SIGKILL)
        write(path, data)

    if moment == "step":
        JaxStepRunner.train = train_or_die
    if moment == "checkpoint":
        files.write_bytes = write_or_die


def train(spec):
    """Executes a run in this process, and returns its trainer."""
    from bert_tf.config import BertConfig
    from bert_tf.training.callbacks import HeldOutData
    from bert_tf.training.lifecycle.run_folder import CheckpointMetadata, RunFolder
    from bert_tf.training.trainer import Trainer, TrainingData
    from bert_tf.training.training_config import RuntimeConfig, TrainingConfig

    config = BertConfig.from_dict({**MODEL, **spec["model"]})
    training = TrainingConfig(
        **{
            "seed": 3,
            "global_batch_size": BATCH,
            "num_train_steps": spec["steps"],
            "num_warmup_steps": 3,
            "learning_rate": 0.003,
            **spec["training"],
        }
    )
    devices = (
        {"distribution_strategy": "mirrored", "num_gpus": spec["devices"]}
        if spec["devices"] > 1
        else {}
    )
    runtime = RuntimeConfig(**{"log_steps": 1, **devices, **spec["runtime"]})

    def initialize(objective):
        for name, value in np.load(spec["weights"]).items():
            objective.variables[name].assign(value)

    folder = RunFolder(spec["folder"], CheckpointMetadata(config.to_dict()))
    trainer = Trainer(
        functools.partial(make_objective, spec, config, runtime.recompute),
        folder,
        training,
        runtime,
        initialize=initialize if spec["weights"] else None,
    )
    if spec["kill"]:
        kill_at(spec["kill"])

    def evaluation():
        if spec["kill"] == "evaluation":
            os.kill(os.getpid(), signal.SIGKILL)
        if spec["kill"] == "signal":
            os.kill(os.getpid(), signal.SIGTERM)
        return batches(spec).take(2)

    data = TrainingData(batches(spec))
    if spec["records"]:
        data = layout_runs.data_of_records(spec["records"], trainer)
    trainer.train(data, HeldOutData({"eval": evaluation}))
    if trainer.is_chief:
        np.savez(f"{spec['folder']}/weights.npz", **weights_of(trainer.objective))
    return trainer


def weights_of(objective):
    """Returns the values of the variables of an objective."""
    return {name: np.array(v.value) for name, v in objective.variables.items()}


if __name__ == "__main__":
    from bert_tf.errors import TrainingInterrupted

    try:
        for each in json.loads(sys.argv[1]):
            train(each)
    except TrainingInterrupted as stopped:
        sys.exit(128 + stopped.signal_number)
