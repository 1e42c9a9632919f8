r"""Measures pretraining throughput, in bert-tf, keras-hub and transformers.

Each system trains in its own process. A step consists of forward pass, backward pass,
clipping by the global norm, and Adam with weight decay, with dropout 0.1 and float32
weights. The systems run alternately, so that other load on the machine affects all
systems equally. The median of the turns is reported. MFU (model FLOPs utilization) is
relative to the throughput of matrix multiplication on this machine. The bert-tf process
measures this throughput after each of its turns; the median is used.

keras-hub's BertMaskedLM (TensorFlow backend) has no next-sentence head, so it predicts
only the masked tokens. transformers' BertForPreTraining (PyTorch) computes logits at
every position, and uses bfloat16 through autocast. Systems that support compilation run
with and without compilation.

    pip install --target=/tmp/keras_hub --no-deps \
        keras-hub kagglehub kagglesdk sentencepiece regex
    pip install --target=/tmp/torch torch transformers
    python benchmarks/training.py \
        --keras_hub_path=/tmp/keras_hub --torch_path=/tmp/torch
    python benchmarks/training.py --breakdown --shapes=small --precisions=bfloat16
"""

import collections
import glob
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
from absl import flags

from bert_tf.config import BertConfig
from bert_tf.errors import InputError
from bert_tf.program import command_line

# The key is the name of a shape. The values are the name of the model size, the batch
# size, and the numbers of tokens and of predicted tokens of each example.
SHAPES = {
    "small": ("small", 16, 128, 20), "small-512": ("small", 4, 512, 76),
    "base": ("base", 8, 128, 20), "base-512": ("base", 2, 512, 76),
    "tiny": ("tiny", 2, 128, 20),
    "base-256x128": ("base", 256, 128, 20), "base-64x512": ("base", 64, 512, 76),
}  # fmt: skip
VOCABULARY = 30522
DROPOUT = 0.1
RATE, CLIP, DECAY = 1e-4, 1.0, 0.01

FLAGS = flags.FLAGS
flags.DEFINE_list(
    "shapes", ["small", "base"], f"Model sizes to measure, from {', '.join(SHAPES)}."
)
flags.DEFINE_list(
    "precisions", ["float32", "bfloat16"], "Precisions to measure: float32, bfloat16."
)
flags.DEFINE_list(
    "systems",
    [
        "bert-tf",
        "keras-hub",
        "keras-hub, XLA",
        "transformers",
        "transformers, compiled",
    ],
    "Systems to measure; also 'bert-tf, XLA'. Systems that are not installed are "
    "skipped.",
)
flags.DEFINE_integer("turns", 7, "Number of turns of each system.")
flags.DEFINE_integer("steps", 5, "Number of steps per turn.")
flags.DEFINE_string(
    "keras_hub_path", "", "Folder with keras-hub, if it is not installed."
)
flags.DEFINE_string(
    "torch_path", "", "Folder with torch and transformers, if they are not installed."
)
flags.DEFINE_bool(
    "breakdown", False, "Print instead the time of each part of a bert-tf step."
)
flags.DEFINE_string(
    "worker", "", "Internal: the system that a worker process measures."
)


def batch_of(shape):
    """Returns a batch with random `record_format.PRETRAINING`, equal for all systems."""
    rng = np.random.default_rng(0)
    _, size, length, predictions = SHAPES[shape]
    positions = [np.sort(rng.permutation(length)[:predictions]) for _ in range(size)]
    ids = {
        "input_ids": rng.integers(0, VOCABULARY, (size, length)),
        "input_mask": np.ones((size, length)),
        "segment_ids": np.arange(length)[None].repeat(size, 0) >= length // 2,
        "masked_lm_positions": np.array(positions),
        "masked_lm_ids": rng.integers(0, VOCABULARY, (size, predictions)),
        "next_sentence_labels": rng.integers(0, 2, (size, 1)),
    }
    batch = {name: value.astype(np.int32) for name, value in ids.items()}
    return batch | {"masked_lm_weights": np.ones((size, predictions), np.float32)}


def config_of(shape, dropout=DROPOUT):
    """Returns the model configuration for a shape, one of `SHAPES`."""
    changes = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    return BertConfig.named(SHAPES[shape][0], VOCABULARY, **changes)


def make_bert_tf(shape, precision, compiled, dropout=DROPOUT):
    """Returns a function that runs a number of bert-tf steps, and the objective."""
    import keras
    import tensorflow as tf

    from bert_tf.modeling import BertPretrainer
    from bert_tf.pretraining.pretraining_objective import PretrainingObjective
    from bert_tf.training.backend import make_devices, make_step_runner
    from bert_tf.training.training_config import RuntimeConfig, TrainingConfig

    keras.config.set_dtype_policy(
        "mixed_bfloat16" if precision == "bfloat16" else "float32"
    )
    config = TrainingConfig(
        num_train_steps=10**6, num_warmup_steps=0, global_batch_size=SHAPES[shape][1],
        learning_rate=RATE, precision=precision,
    )  # fmt: skip
    objective = PretrainingObjective(BertPretrainer(config_of(shape, dropout), seed=0))
    runtime = RuntimeConfig(jit_compile=compiled)
    runner = make_step_runner(objective, config, runtime, make_devices(runtime))
    batches = iter(tf.data.Dataset.from_tensors(batch_of(shape)).repeat().prefetch(2))
    done = [0]

    def run(steps):
        runner.train(batches, done[0], steps)
        done[0] += steps

    return run, objective


def compile_pretrainer(shape, **options):
    """Returns a `BertPretrainer` for `fit`, on any backend of Keras."""
    import keras

    from bert_tf import AdamWeightDecay, BertPretrainer, WarmupSchedule

    model = BertPretrainer(config_of(shape), seed=0, **options)
    cross_entropy = keras.losses.SparseCategoricalCrossentropy
    masked_lm = cross_entropy(from_logits=True, reduction="mean_with_sample_weight")
    next_sentence = cross_entropy(from_logits=True)
    losses = {"masked_lm_logits": masked_lm, "next_sentence_logits": next_sentence}
    schedule = WarmupSchedule(RATE, 10**6, num_warmup_steps=1000)
    model.compile(AdamWeightDecay(schedule), loss=losses)
    return model


def fit_data(batch):
    """Returns inputs, targets and sample weights of a batch for `fit`."""
    names = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions")
    labels, weights = batch["next_sentence_labels"], batch["masked_lm_weights"]
    return (
        {name: batch[name] for name in names},
        {"masked_lm_logits": batch["masked_lm_ids"], "next_sentence_logits": labels},
        {"masked_lm_logits": weights, "next_sentence_logits": weights[:, 0]},
    )


def make_keras_hub(shape, precision, compiled):
    """Returns a function that runs a number of steps of keras-hub with `fit`."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras
    import keras_hub
    import tensorflow as tf

    keras.config.set_dtype_policy(
        "mixed_bfloat16" if precision == "bfloat16" else "float32"
    )
    config, batch = config_of(shape), batch_of(shape)
    backbone = keras_hub.models.BertBackbone(
        config.vocab_size, config.num_hidden_layers, config.num_attention_heads,
        config.hidden_size, config.intermediate_size, dropout=DROPOUT,
    )  # fmt: skip
    model = keras_hub.models.BertMaskedLM(backbone, preprocessor=None)
    model.compile(
        optimizer=keras.optimizers.AdamW(
            RATE, weight_decay=DECAY, global_clipnorm=CLIP
        ),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=compiled,
    )
    inputs = {
        "token_ids": batch["input_ids"],
        "padding_mask": batch["input_mask"],
        "segment_ids": batch["segment_ids"],
        "mask_positions": batch["masked_lm_positions"],
    }
    data = tf.data.Dataset.from_tensors(
        (inputs, batch["masked_lm_ids"], batch["masked_lm_weights"])
    )
    data = data.repeat().prefetch(2)
    return lambda steps: model.fit(data, steps_per_epoch=steps, verbose=0)


def transformers_inputs(batch, device="cpu"):
    """Returns the arguments of transformers' BertForPreTraining for a batch."""
    import torch

    labels = np.full(batch["input_ids"].shape, -100)
    np.put_along_axis(labels, batch["masked_lm_positions"], batch["masked_lm_ids"], 1)
    arrays = {
        "input_ids": batch["input_ids"],
        "attention_mask": batch["input_mask"],
        "token_type_ids": batch["segment_ids"],
        "labels": labels,
        "next_sentence_label": batch["next_sentence_labels"][:, 0],
    }
    return {
        name: torch.tensor(value, dtype=torch.int64, device=device)
        for name, value in arrays.items()
    }


def make_transformers(shape, precision, compiled):
    """Returns a function that runs a number of transformers steps in a PyTorch loop."""
    import torch
    import transformers

    options = transformers.BertConfig(**config_of(shape).to_dict())
    model = transformers.BertForPreTraining(options).train()
    optimizer = torch.optim.AdamW(
        model.parameters(), RATE, weight_decay=DECAY, fused=True
    )
    inputs = transformers_inputs(batch_of(shape))
    call = torch.compile(model) if compiled else model

    def run(steps):
        for _ in range(steps):
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
                loss = call(**inputs).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    return run


MAKERS = {
    "bert-tf": lambda *arguments: make_bert_tf(*arguments)[0],
    "keras-hub": make_keras_hub,
    "transformers": make_transformers,
}


def run_worker(system, shape, precision):
    """Runs `--steps` steps per line of stdin; prints wall and CPU seconds per step."""
    name, _, compiled = system.partition(", ")
    if name == "bert-tf":
        import matmul_speed
    run = MAKERS[name](shape, precision, bool(compiled))
    run(2)
    run(FLAGS.steps)
    print("ready", flush=True)
    for _ in sys.stdin:
        start, cores = time.perf_counter(), time.process_time()
        run(FLAGS.steps)
        answer = {
            "secs": (time.perf_counter() - start) / FLAGS.steps,
            "core_secs": (time.process_time() - cores) / FLAGS.steps,
        }
        if name == "bert-tf":
            answer["peak"] = matmul_speed.measure(precision)[1]
        print(json.dumps(answer), flush=True)


class Worker:
    """A system that runs in its own process."""

    def __init__(self, system, shape, precision):
        paths = {"keras-hub": FLAGS.keras_hub_path, "transformers": FLAGS.torch_path}
        folders = [
            paths.get(system.split(",")[0], ""),
            os.environ.get("PYTHONPATH", ""),
        ]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, folders)),
        }
        spec = json.dumps([system, shape, precision])
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (open until the process ends)
        self._process = subprocess.Popen(
            [sys.executable, __file__, f"--worker={spec}", f"--steps={FLAGS.steps}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
            env=environment,
        )  # fmt: skip
        self.turns = []
        self.failure = (
            ""
            if self._process.stdout.readline() == "ready\n"
            else self._last_error_line()
        )

    def _last_error_line(self):
        self._process.wait()
        self._log.seek(0)
        return (self._log.read().strip().splitlines() or ["no message"])[-1][:200]

    def run_turn(self):
        """Lets the process run one turn, and stores the measured times."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.turns.append(json.loads(self._process.stdout.readline()))

    def median(self, figure):
        """Returns the median of a measurement, such as "secs", over all turns."""
        return statistics.median(turn[figure] for turn in self.turns)

    def end(self):
        """Closes stdin of the process, and waits until the process ends."""
        self._process.stdin.close()
        self._process.wait()


def compare(shape, precision):
    """Prints a table that compares the systems for a shape and a precision."""
    from bert_tf.modeling import costs  # PyTorch workers must not load TensorFlow

    size, batch, length, predictions = SHAPES[shape]
    workers = {}
    for system in FLAGS.systems:
        worker = Worker(system, shape, precision)
        if worker.failure:
            print(f"{system} is skipped: {worker.failure}")
        else:
            workers[system] = worker
    for _ in range(FLAGS.turns):
        for worker in workers.values():
            worker.run_turn()
    for worker in workers.values():
        worker.end()
    flops = costs.training_step_flops(
        BertConfig.named(size, VOCABULARY), batch, length, predictions
    )
    first = next(iter(workers.values()))
    peak = first.median("peak") if "peak" in first.turns[0] else None
    print(
        f"\n{size}, batch {batch} x {length}, {precision}: {flops / 1e9:.0f} GFLOP per "
        "step; " + (f"matrix products at {peak / 1e9:.0f} GFLOP/s" if peak else "")
    )
    print(
        "| system | ms per step | CPU ms | tokens/s | MFU | time relative to the first "
        "|"
    )
    print("|---|---|---|---|---|---|")
    for system, worker in workers.items():
        secs = worker.median("secs")
        share = (
            f"{flops / secs / peak:.0%}"
            if peak and system.startswith("bert-tf")
            else ""
        )
        print(
            f"| {system} | {secs * 1e3:.0f} | {worker.median('core_secs') * 1e3:.0f} | "
            f"{batch * length / secs:,.0f} | {share} | "
            f"{secs / first.median('secs'):.2f}x |",
            flush=True,
        )


def breakdown(shape, precision):
    """Prints the time of each part of a bert-tf step, with and without dropout."""
    import tensorflow as tf

    print(
        f"\n{shape}, {precision}: milliseconds, minimum of {FLAGS.turns} turns (wall, "
        "CPU)"
    )
    for dropout in (DROPOUT, 0.0):
        run, objective = make_bert_tf(shape, precision, False, dropout)
        variables = [variable.value for variable in objective.variables.values()]
        batch = {name: tf.constant(value) for name, value in batch_of(shape).items()}
        counts, seed = objective.counts(batch), tf.constant([1, 2])

        def forward(objective=objective, batch=batch, seed=seed, counts=counts):
            return objective.loss(
                objective.sums(batch, training=True, seed=seed), counts
            )

        def forward_and_backward(forward=forward, variables=variables):
            with tf.GradientTape() as tape:
                loss = forward()
            return [tf.convert_to_tensor(g) for g in tape.gradient(loss, variables)]

        parts = {
            "forward": minimum_secs(tf.function(forward)),
            "forward and backward": minimum_secs(tf.function(forward_and_backward)),
            "complete step": minimum_secs(lambda run=run: run(1)),
        }
        for name, (wall, cores) in parts.items():
            print(
                f"  dropout {dropout}: {name:22} {wall * 1e3:6.0f} {cores * 1e3:6.0f}"
            )
        print_operations(run)


def minimum_secs(call):
    """Returns the minimum wall and CPU seconds of `call()`, after two warm-up calls."""
    call(), call()
    times = []
    for _ in range(FLAGS.turns):
        start, cores = time.perf_counter(), time.process_time()
        call()
        times.append((time.perf_counter() - start, time.process_time() - cores))
    return min(wall for wall, _ in times), min(cores for _, cores in times)


def print_operations(run):
    """Prints the operations that take the most time, by TensorFlow's profiler."""
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    with tempfile.TemporaryDirectory() as folder:
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2)
        tf.profiler.experimental.start(folder, options)
        run(FLAGS.steps)
        tf.profiler.experimental.stop()
        (path,) = glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)
        space = xplane_pb2.XSpace.FromString(pathlib.Path(path).read_bytes())
    totals, counts = collections.Counter(), collections.Counter()
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                name = plane.event_metadata[event.metadata_id].name
                kind = name.rpartition(":")[2]
                if ":" in name and kind.isidentifier():
                    totals[kind] += event.duration_ps / 1e9
                    counts[kind] += 1
    print("  operation                      ms per step  calls")
    for kind, total in totals.most_common(25):
        print(
            f"  {kind:30} {total / FLAGS.steps:10.1f} {counts[kind] / FLAGS.steps:6.0f}"
        )


def main():
    """Compares the systems, or prints the breakdown of a bert-tf step."""
    unknown = {*FLAGS.shapes} - {*SHAPES}
    if unknown:
        raise InputError(
            f"Unknown shapes: {sorted(unknown)}. Choose from {sorted(SHAPES)}."
        )
    if FLAGS.worker:
        run_worker(*json.loads(FLAGS.worker))
        return
    for shape in FLAGS.shapes:
        for precision in FLAGS.precisions:
            (breakdown if FLAGS.breakdown else compare)(shape, precision)


if __name__ == "__main__":
    command_line.run(main)
