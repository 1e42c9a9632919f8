r"""Times training steps on batches in random order and on batches of similar length.

    python benchmarks/batch_order.py /models/minilm $BERT_TF_TEST_DATA/data \
        [float32|bfloat16]

The model computes nothing on padding, except in attention. Each turn is 16 steps, a
window of `TrainingOrder`, so both orders train on the same examples.
"""

import statistics
import sys
import tempfile
import time

import numpy as np

import bert_tf
from bert_tf.runs import batches
from bert_tf.runs.run_data import RunData
from bert_tf.tasks.task import TaskInputs
from bert_tf.training.tensorflow_step.step_runner import TensorFlowStepRunner

TURNS, STEPS = 3, 16
PHASES = bert_tf.RunPhases(True, False)


def tasks(data):
    """Returns by name: task, place of its data, longest sequence, batch size."""
    at, limit = bert_tf.DataLocation, 4000
    found = {
        name: (bert_tf.glue_task(name), at(data_dir=f"{data}/glue/{name}"), 128, 32)
        for name in ("MRPC", "RTE", "STS-B", "CoLA", "SST-2")
    }
    found["SQuAD"] = (
        bert_tf.SquadTask(),
        at(train_file=f"{data}/squad/train-v1.1.json", max_train_examples=limit),
        384, 12,
    )  # fmt: skip
    found["OpenBookQA"] = (
        bert_tf.ChoiceTask(),
        at(train_file=f"{data}/swag/openbookqa_swagfmt_train.csv"), 128, 16,
    )  # fmt: skip
    found["WNUT-17"] = (
        bert_tf.NerTask(), at(train_file=f"{data}/ner/wnut17_train.conll"), 128, 32,
    )  # fmt: skip
    return found


def measure(pretrained, task, location, length, batch_size, precision, folder):
    """Returns by order the median seconds of a step, and the mean share of tokens."""
    tokenizer = pretrained.tokenizer
    task = task.prepare(TaskInputs(location, PHASES, tokenizer, length))
    config = bert_tf.FineTuningConfig(max_seq_length=length)
    data = RunData(task, location, tokenizer, config, PHASES, folder).read()
    data.write_all_records()
    records = data.splits["train"][0].records
    training = bert_tf.TrainingConfig(
        learning_rate=1e-5,
        global_batch_size=batch_size,
        precision=precision,
        num_train_steps=1000,
        num_warmup_steps=0,
    )
    dtype = {"float32": "float32", "bfloat16": "mixed_bfloat16"}[precision]
    objective = task.make_objective(pretrained.config, seed=1, dtype=dtype)
    objective.model.skip_padding = True
    runner = TensorFlowStepRunner(objective, training)
    parse = batches.make_parser(task.table, {**task.sizes, "S": length}, True)
    num_tokens = records.index.num_tokens
    secs, shares, iterators = {}, {}, {}
    for name, lengths in {
        "random": np.zeros_like(num_tokens),
        "similar": num_tokens,
    }.items():
        order = batches.TrainingOrder(lengths, batch_size, 1)
        iterators[name] = iter(batches.training_batches(records, order, parse, 0))
        found = [num_tokens[order.batch(step)].astype(int) for step in range(STEPS)]
        shares[name] = np.mean([each.mean() / each.max() for each in found])
        secs[name] = []
    for turn in range(TURNS + 1):  # the first turn traces the step
        for name, iterator in iterators.items():
            start = time.perf_counter()
            runner.train(iterator, 0, STEPS)
            if turn:
                secs[name].append((time.perf_counter() - start) / STEPS)
    return {
        name: (statistics.median(each), shares[name]) for name, each in secs.items()
    }


def main(checkpoint, data, precision="float32"):
    """Prints a line for each task."""
    pretrained = bert_tf.load(checkpoint)
    for name, settings in tasks(data).items():
        with tempfile.TemporaryDirectory() as folder:
            found = measure(pretrained, *settings, precision, folder)
        (random, share), (similar, grouped) = found["random"], found["similar"]
        print(
            f"{name}: random {random * 1e3:,.0f} ms ({share:.0%} tokens), similar "
            f"{similar * 1e3:,.0f} ms ({grouped:.0%}), random/similar "
            f"{random / similar:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
