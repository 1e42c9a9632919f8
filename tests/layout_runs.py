"""Short pretraining runs of a tiny BERT on different numbers of devices and workers.

As a program, this module takes a JSON list of runs. The imports take longer than the
runs, so the program imports all modules once and then forks a process for each worker.
Worker n saves the final weights as `<folder>/weights-n.npz`.
"""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import vector_runs

RUN = {
    "kind": "one_device", "devices": 1, "workers": 1, "accumulation": 1, "steps": 20,
    "dropout": 0.0, "stop_at": 0, "training": {}, "runtime": {}, "records": "",
    "vectors": "",
}  # fmt: skip
VOCABULARY, LENGTH, PREDICTIONS, BATCH = 30, 12, 3, 32


def start(specs):
    """Executes the runs in sequence.

    Returns for each run the exit codes of its workers.
    """
    text = json.dumps(
        [{**RUN, **spec, "folder": str(spec["folder"])} for spec in specs]
    )
    done = subprocess.run(
        [sys.executable, __file__, text],
        check=True,
        env={**os.environ, "KERAS_BACKEND": "tensorflow"},
        text=True,
        stdout=subprocess.PIPE,
    )
    return json.loads(done.stdout.splitlines()[-1])


def weights(folder, worker=0):
    """Returns the final weights of a run."""
    return dict(np.load(f"{folder}/weights-{worker}.npz"))


def columns():
    """Returns random examples with varying numbers of predictions."""
    rng = np.random.default_rng(0)
    count = 96
    used = rng.integers(1, PREDICTIONS + 1, [count, 1])
    lengths = rng.integers(4, LENGTH + 1, [count, 1])
    values = {
        "input_ids": rng.integers(5, VOCABULARY, [count, LENGTH]),
        "input_mask": np.arange(LENGTH) < lengths,
        "segment_ids": np.arange(LENGTH) > lengths // 2,
        "masked_lm_positions": rng.integers(0, 4, [count, PREDICTIONS]),
        "masked_lm_ids": rng.integers(5, VOCABULARY, [count, PREDICTIONS]),
        "masked_lm_weights": np.arange(PREDICTIONS) < used,
        "next_sentence_labels": rng.integers(0, 2, [count, 1]),
    }
    types = {
        name: np.float32 if name == "masked_lm_weights" else np.int32 for name in values
    }
    return {name: value.astype(types[name]) for name, value in values.items()}


def batches():
    """Returns an infinite dataset of batches of these examples."""
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices(columns())
    return (
        dataset.shuffle(96, seed=1, reshuffle_each_iteration=True).repeat().batch(BATCH)
    )


def data_of_records(path, trainer):
    """Returns this process's part of the batches of records."""
    from bert_tf.pretraining.batches import training_batches
    from bert_tf.training.trainer import TrainingData

    part = trainer.part_of_batch()
    sizes = {"S": LENGTH, "P": PREDICTIONS, "V": VOCABULARY, "T": 2}
    divided = training_batches([path], sizes, BATCH, 3, 50, part=part)
    return TrainingData(divided, is_part=part is not None)


def train(spec, worker):
    """Executes one worker of a run in this process."""
    import signal

    import tensorflow as tf

    from bert_tf.config import BertConfig
    from bert_tf.modeling import BertPretrainer
    from bert_tf.pretraining.pretraining_objective import PretrainingObjective
    from bert_tf.training.callbacks import HeldOutData
    from bert_tf.training.lifecycle.run_folder import CheckpointMetadata, RunFolder
    from bert_tf.training.trainer import Trainer, TrainingData
    from bert_tf.training.training_config import RuntimeConfig, TrainingConfig

    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration()] * spec["devices"]
    tf.config.set_logical_device_configuration(cpu, logical)
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=LENGTH,
        type_vocab_size=2,
        hidden_dropout_prob=spec["dropout"],
        attention_probs_dropout_prob=spec["dropout"],
    )
    training = TrainingConfig(
        seed=3,
        global_batch_size=BATCH,
        num_train_steps=spec["steps"],
        num_warmup_steps=3,
        learning_rate=0.01,
        **spec["training"],
    )
    runtime = RuntimeConfig(
        distribution_strategy=spec["kind"],
        gradient_accumulation_steps=spec["accumulation"],
        eval_steps=spec["stop_at"],
        stop_on_signals=True,
        **{"log_steps": 1, **spec["runtime"]},
    )
    folder = RunFolder(spec["folder"], CheckpointMetadata(config.to_dict()))

    def make_objective(seed, dtype):
        if spec["vectors"]:
            options = {"recompute": runtime.recompute, "seed": seed, "dtype": dtype}
            return vector_runs.make_objective(spec["vectors"], config, **options)
        model = BertPretrainer(
            config, recompute=runtime.recompute, seed=seed, dtype=dtype
        )
        return PretrainingObjective(model)

    trainer = Trainer(make_objective, folder, training, runtime)

    def held_out():
        if worker == spec["workers"] - 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return batches().take(1)

    evaluation = HeldOutData({"eval": held_out}) if spec["stop_at"] else None
    data = TrainingData(batches())
    if spec["vectors"]:
        data = TrainingData(batches().map(vector_runs.of_texts))
    if spec["records"]:
        data = data_of_records(spec["records"], trainer)
    trainer.train(data, evaluation)
    final = {
        name: np.asarray(v.value) for name, v in trainer.objective.variables.items()
    }
    os.makedirs(spec["folder"], exist_ok=True)
    np.savez(f"{spec['folder']}/weights-{worker}.npz", **final)


def fork(spec, worker, ports):
    """Starts a worker and returns its process id."""
    child = os.fork()
    if child:
        return child
    if ports:
        cluster = {"worker": [f"localhost:{port}" for port in ports]}
        task = {"type": "worker", "index": worker}
        os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})
    from bert_tf.errors import TrainingInterrupted

    code = 1
    try:
        train(spec, worker)
        code = 0
    except TrainingInterrupted as stopped:
        code = 128 + stopped.signal_number
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(code)


def free_ports(count):
    """Returns unused ports."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("localhost", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def main():
    """Executes the runs in the first command-line argument, a JSON list."""
    import tensorflow  # noqa: F401  imported once for all processes

    import bert_tf.pretraining.pretraining_objective
    import bert_tf.training.trainer  # noqa: F401

    codes = []
    for spec in json.loads(sys.argv[1]):
        ports = (
            free_ports(spec["workers"])
            if spec["kind"] == "multi_worker_mirrored"
            else []
        )
        children = [fork(spec, worker, ports) for worker in range(spec["workers"])]
        codes.append(
            [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        )
    print(json.dumps(codes))


if __name__ == "__main__":
    main()
