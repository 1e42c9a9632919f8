r"""Measures held-out results of pretraining, in bert-tf and in transformers.

bert-tf trains with run_scripts/run_pretraining.py. transformers' BertForPreTraining
(PyTorch, not compiled) trains on the same batches in the same order, with the
optimizer, learning rate schedule and gradient clipping of google-research/bert. Both
systems start from different random weights and are evaluated on the same held-out
records. The reported seconds of training exclude start-up and evaluation.

    python benchmarks/held_out.py --torch_path=/tmp/torch --output_dir=/tmp/held_out \
        --input_file='/data/books-*.tfrecord'
        --eval_input_file='/data/books_eval-*.tfrecord' \
        --bert_config_file=bert_config.json --vocab_file=vocab.txt
        --num_train_steps=1500
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
from absl import flags

from bert_tf.config import BertConfig
from bert_tf.program import command_line

ROOT = pathlib.Path(__file__).parent.parent
BETAS, EPSILON, DECAY, CLIP = (0.9, 0.999), 1e-6, 0.01, 1.0

FLAGS = flags.FLAGS
flags.DEFINE_string("input_file", None, "Record files to train on.", required=True)
flags.DEFINE_string("eval_input_file", None, "Held-out record files.", required=True)
flags.DEFINE_string(
    "bert_config_file",
    None,
    "The model configuration, bert_config.json.",
    required=True,
)
flags.DEFINE_string("vocab_file", None, "The vocabulary file.", required=True)
flags.DEFINE_string(
    "output_dir", None, "The folder for the results of both systems.", required=True
)
flags.DEFINE_string(
    "torch_path", "", "Folder with torch and transformers, if they are not installed."
)
flags.DEFINE_integer("num_train_steps", 1500, "Number of training steps.")
flags.DEFINE_integer("num_warmup_steps", 150, "Number of warm-up steps.")
flags.DEFINE_integer("train_batch_size", 32, "Number of examples per step.")
flags.DEFINE_float("learning_rate", 1e-3, "Peak learning rate.")
flags.DEFINE_integer("eval_steps", 250, "Number of steps between evaluations.")
flags.DEFINE_integer(
    "max_eval_steps", 100, "Number of batches of 32 examples per evaluation."
)
flags.DEFINE_integer(
    "seed", 12345, "Seed of bert-tf's weights, dropout and order of examples."
)
flags.DEFINE_bool("peer", False, "Internal: run transformers in this process.")


def train_bert_tf():
    """Trains with bert-tf.

    Returns the evaluations, the training seconds and the wall seconds.
    """
    shared = ("input_file", "eval_input_file", "bert_config_file", "vocab_file",
              "num_train_steps", "num_warmup_steps", "train_batch_size",
              "learning_rate", "eval_steps", "seed", "max_eval_steps")  # fmt: skip
    folder = f"{FLAGS.output_dir}/bert_tf"
    command = [
        sys.executable, str(ROOT / "run_scripts/run_pretraining.py"),
        f"--output_dir={folder}",
        "--do_train=true", "--do_eval=true", "--eval_batch_size=32", "--log_steps=25",
        *(f"--{name}={FLAGS[name].value}" for name in shared),
    ]  # fmt: skip
    start = time.perf_counter()
    subprocess.run(command, check=True)
    wall = time.perf_counter() - start
    lines = pathlib.Path(folder, "metrics.jsonl").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    trained = [entry for entry in entries if entry["kind"] == "train"]
    rates = [entry["examples_per_sec"] for entry in trained]
    secs = sum(25 * FLAGS.train_batch_size / each for each in rates)
    evals = {entry["step"]: entry for entry in entries if entry["kind"] == "eval"}
    return {"evals": evals, "secs": secs, "wall": wall}


def save_batches(path):
    """Saves bert-tf's training and evaluation batches in order, for transformers."""
    from bert_tf.pretraining.batches import evaluation_batches, training_batches
    from bert_tf.pretraining.record_checks import record_files

    config = BertConfig.from_json(pathlib.Path(FLAGS.bert_config_file).read_text())
    sizes = {"S": 128, "P": 20, "V": config.vocab_size, "T": config.type_vocab_size}
    train = training_batches(
        record_files(FLAGS.input_file), sizes, FLAGS.train_batch_size, FLAGS.seed, 10000
    )
    held_out = evaluation_batches(record_files(FLAGS.eval_input_file), sizes, 32)
    arrays = {}
    for kind, batches in (
        ("train", train.take(FLAGS.num_train_steps)),
        ("eval", held_out.take(FLAGS.max_eval_steps)),
    ):
        values = [
            {name: value.numpy() for name, value in batch.items()} for batch in batches
        ]
        for name in set(values[0]) - {"origin"}:
            arrays[f"{kind}/{name}"] = np.concatenate([batch[name] for batch in values])
    np.savez(path, **arrays)


def train_transformers(path):
    """Trains the model of transformers and prints each evaluation as a line of JSON."""
    import torch
    import transformers

    torch.manual_seed(FLAGS.seed)
    arrays = {name: torch.tensor(value) for name, value in np.load(path).items()}
    config = BertConfig.from_json(pathlib.Path(FLAGS.bert_config_file).read_text())
    names = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
             "intermediate_size", "hidden_dropout_prob", "attention_probs_dropout_prob",
             "max_position_embeddings", "type_vocab_size",
             "initializer_range")  # fmt: skip
    options = {name: getattr(config, name) for name in names}
    model = transformers.BertForPreTraining(
        transformers.BertConfig(**options, hidden_act="gelu_new", layer_norm_eps=1e-12)
    )
    weights = dict(model.named_parameters())
    slots = {
        name: (torch.zeros_like(w), torch.zeros_like(w)) for name, w in weights.items()
    }
    secs, size = 0.0, FLAGS.train_batch_size
    for step in range(FLAGS.num_train_steps):
        start = time.perf_counter()
        batch = part(arrays, "train", slice(step * size, (step + 1) * size))
        model.train()
        losses, _ = forward(model, batch)
        model.zero_grad(set_to_none=True)
        sum(losses).backward()
        torch.nn.utils.clip_grad_norm_(weights.values(), CLIP)
        update(weights, slots, scheduled_rate(step))
        secs += time.perf_counter() - start
        if (step + 1) % FLAGS.eval_steps == 0 or step + 1 == FLAGS.num_train_steps:
            print(
                json.dumps({"step": step + 1, "secs": secs, **evaluate(model, arrays)})
            )
            sys.stdout.flush()


def part(arrays, kind, rows):
    """Returns the saved examples whose indices are in `rows`.

    `kind` is "train" or "eval".
    """
    prefix = f"{kind}/"
    return {
        name.removeprefix(prefix): value[rows]
        for name, value in arrays.items()
        if name.startswith(prefix)
    }


def forward(model, batch):
    """Returns mean losses, and tensors that are 1 for a correct prediction, else 0.

    Each is a list [masked LM, next sentence].
    """
    import torch

    outputs = model(
        input_ids=batch["input_ids"].long(),
        attention_mask=batch["input_mask"].long(),
        token_type_ids=batch["segment_ids"].long(),
    )
    rows = torch.arange(len(batch["input_ids"]))[:, None]
    used = batch["masked_lm_weights"] > 0
    logits = outputs.prediction_logits[rows, batch["masked_lm_positions"].long()][used]
    ids, labels = (
        batch["masked_lm_ids"][used].long(),
        batch["next_sentence_labels"][:, 0].long(),
    )
    pairs = outputs.seq_relationship_logits
    losses = [
        torch.nn.functional.cross_entropy(logits, ids),
        torch.nn.functional.cross_entropy(pairs, labels),
    ]
    return losses, [
        (logits.argmax(-1) == ids).float(),
        (pairs.argmax(-1) == labels).float(),
    ]


def scheduled_rate(step):
    """Returns the learning rate at `step`, as in google-research/bert."""
    if step < FLAGS.num_warmup_steps:
        return FLAGS.learning_rate * step / FLAGS.num_warmup_steps
    return FLAGS.learning_rate * (1 - step / FLAGS.num_train_steps)


def update(weights, slots, learning_rate):
    """Updates all weights with the optimizer of google-research/bert."""
    import torch

    with torch.no_grad():
        used = [name for name in weights if weights[name].grad is not None]
        values, gradients = [weights[n] for n in used], [weights[n].grad for n in used]
        firsts, seconds = [slots[n][0] for n in used], [slots[n][1] for n in used]
        torch._foreach_lerp_(firsts, gradients, 1 - BETAS[0])
        torch._foreach_mul_(seconds, BETAS[1])
        torch._foreach_addcmul_(seconds, gradients, gradients, 1 - BETAS[1])
        roots = torch._foreach_sqrt(seconds)
        torch._foreach_add_(roots, EPSILON)
        decayed = [w for n, w in zip(used, values, strict=True)
                   if not re.search(r"LayerNorm|bias", n)]  # fmt: skip
        torch._foreach_mul_(decayed, 1 - learning_rate * DECAY)
        torch._foreach_addcdiv_(values, firsts, roots, -learning_rate)


def evaluate(model, arrays):
    """Returns the held-out results, named as in `eval_results.txt`."""
    import torch

    model.eval()
    count = len(arrays["eval/input_ids"])
    totals = np.zeros(6)
    with torch.no_grad():
        for at in range(0, count, 32):
            losses, correct = forward(model, part(arrays, "eval", slice(at, at + 32)))
            for kind in (0, 1):
                number = len(correct[kind])
                totals[3 * kind : 3 * kind + 3] += (
                    number, number * losses[kind].item(), correct[kind].sum().item(),
                )  # fmt: skip
    masked, next_sentence = totals[:3], totals[3:]
    return {
        "loss": masked[1] / masked[0] + next_sentence[1] / next_sentence[0],
        "masked_lm_loss": masked[1] / masked[0],
        "masked_lm_accuracy": masked[2] / masked[0],
        "next_sentence_accuracy": next_sentence[2] / next_sentence[0],
    }


def main():
    """Trains both systems and prints a table of their held-out results."""
    batches_file = f"{FLAGS.output_dir}/batches.npz"
    if FLAGS.peer:
        train_transformers(batches_file)
        return
    ours = train_bert_tf()
    save_batches(batches_file)
    environment = {**os.environ, "PYTHONPATH": f"{FLAGS.torch_path}:{ROOT}"}
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, __file__, "--peer", *sys.argv[1:]],
        check=True, text=True, stdout=subprocess.PIPE, env=environment,
    )  # fmt: skip
    wall = time.perf_counter() - start
    print("| step | | bert-tf | transformers |\n|---|---|---|---|")
    last = {}
    for line in done.stdout.splitlines():
        last = json.loads(line)
        for name in ("masked_lm_loss", "masked_lm_accuracy", "next_sentence_accuracy"):
            value = ours["evals"][last["step"]][name]
            print(f"| {last['step']:,} | {name} | {value:.4f} | {last[name]:.4f} |")
    print(f"| | seconds of training | {ours['secs']:.0f} | {last['secs']:.0f} |")
    print(
        f"| | seconds with start-up and evaluations | {ours['wall']:.0f} | {wall:.0f} |"
    )


if __name__ == "__main__":
    command_line.run(main)
