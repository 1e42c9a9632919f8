r"""Measures fine-tuning on generated pairs: memory, time, checkpoint, exact resume.

The set has the lengths of MNLI: premises of 20 words and hypotheses of 10 words on
average, which are cut from a text file. A tiny model is trained, so nearly all memory
belongs to the data. The memory of the same run on 1,000 pairs is the memory of
TensorFlow, the model and its steps. The run is then repeated, killed in the middle
(kill -9) and resumed, and the weights are compared.

    python benchmarks/fine_tuning_memory.py \
        --text_file=books.txt --vocab_file=vocab.txt \
        --output_dir=/tmp/ten_million --num_pairs=10000000
"""

import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
from absl import flags

from bert_tf.program import command_line

ROOT = pathlib.Path(__file__).parent.parent
CONFIG = {
    "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 512,
    "max_position_embeddings": 128, "type_vocab_size": 2,
}  # fmt: skip
LABELS = ("contradiction", "entailment", "neutral")
PAIRS_PER_WRITE = 10_000

FLAGS = flags.FLAGS
flags.DEFINE_string(
    "text_file", None, "Text from which sentences are cut.", required=True
)
flags.DEFINE_string("vocab_file", None, "The vocabulary.", required=True)
flags.DEFINE_string(
    "output_dir", None, "Folder for the data and the runs.", required=True
)
flags.DEFINE_integer("num_pairs", 10_000_000, "Number of pairs.")
flags.DEFINE_integer(
    "num_steps", 300, "Number of training steps; the kill comes after half of them."
)


def generate(path, count):
    """Writes a train file in the format of MNLI."""
    words = pathlib.Path(FLAGS.text_file).read_text("utf-8")[:4_000_000].split()
    rng = np.random.default_rng(0)
    with open(path, "w", encoding="utf-8") as file:
        file.write("sentence1\tsentence2\tgold_label\n")
        for start in range(0, count, PAIRS_PER_WRITE):
            size = min(PAIRS_PER_WRITE, count - start)
            first = np.clip(rng.lognormal(2.8, 0.65, size), 2, 200).astype(int)
            second = np.clip(rng.normal(10, 4, size), 2, 40).astype(int)
            places = rng.integers(0, len(words) - 300, (2, size))
            labels = rng.integers(0, 3, size)
            for a, b, c, d, label in zip(
                *places.tolist(), first, second, labels, strict=True
            ):
                texts = " ".join(words[a : a + c]), " ".join(words[b : b + d])
                file.write("\t".join([*texts, LABELS[label]]) + "\n")


def command(data, folder, *more):
    """Returns the command of a run."""
    return [
        sys.executable, str(ROOT / "run_scripts/run_classifier.py"), "--task_name=mnli",
        f"--train_file={data}", f"--output_dir={folder}",
        f"--vocab_file={FLAGS.vocab_file}",
        f"--bert_config_file={FLAGS.output_dir}/bert_config.json", "--do_train=true",
        f"--stop_at_step={FLAGS.num_steps}", "--log_steps=1", "--deterministic",
        f"--save_checkpoints_steps={FLAGS.num_steps // 3}", "--iterations_per_loop=1",
        *more,
    ]  # fmt: skip


def resident_mb(pid):
    """Returns the resident memory of a process alone, without mapped files."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1e3
    return 0.0


def run(arguments, folder, kill_at=None):
    """Runs a command.

    Returns its peak memory, the seconds to its first step and its seconds.
    """
    log = pathlib.Path(folder, "metrics.jsonl")
    old = log.read_text() if log.exists() else ""
    start, peak, first_step = time.monotonic(), 0.0, None
    process = subprocess.Popen(
        arguments, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    os.set_blocking(process.stderr.fileno(), False)
    errors = b""
    while process.poll() is None:
        errors += process.stderr.read() or b""
        try:
            peak = max(peak, resident_mb(process.pid))
        except FileNotFoundError:
            break
        text = log.read_text() if log.exists() else ""
        lines = text.splitlines()
        if first_step is None and text and text != old:
            first_step = time.monotonic() - start
        if (
            kill_at
            and lines
            and json.loads(lines[-1])["step"] >= kill_at
            and first_step
        ):
            process.send_signal(signal.SIGKILL)
        time.sleep(0.05)
    if process.wait() not in (0, -signal.SIGKILL if kill_at else 0):
        sys.exit(errors.decode())
    return {
        "peak_mb": peak,
        "first_step_secs": first_step,
        "secs": time.monotonic() - start,
    }


def weights(folder):
    """Returns the SHA-256 of the weights, and the size of the checkpoint in bytes."""
    checkpoint = pathlib.Path(folder, "checkpoints", f"step-{FLAGS.num_steps:08d}")
    sha256 = hashlib.sha256((checkpoint / "model.safetensors").read_bytes()).hexdigest()
    return sha256, {
        path.name: path.stat().st_size for path in sorted(checkpoint.iterdir())
    }


def main():
    """Runs all measurements, and prints one JSON object per line."""
    out = pathlib.Path(FLAGS.output_dir)
    out.mkdir(parents=True, exist_ok=True)
    size = len(pathlib.Path(FLAGS.vocab_file).read_text("utf-8").splitlines())
    (out / "bert_config.json").write_text(json.dumps({**CONFIG, "vocab_size": size}))
    folders = {}
    for count in (1000, FLAGS.num_pairs):
        folders[count] = out / f"run_{count}"
        data = out / f"train_{count}.tsv"
        if not data.exists():
            generate(data, count)
        more = ["--overwrite"] + (["--num_train_epochs=100"] if count == 1000 else [])
        found = run(command(data, folders[count], *more), folders[count])
        expected, files = weights(folders[count])
        print(json.dumps({"pairs": count, **found, "checkpoint": files}), flush=True)
    folder = folders[FLAGS.num_pairs]
    killed = run(
        command(data, folder, "--overwrite"), folder, kill_at=FLAGS.num_steps // 2
    )
    resumed = run(command(data, folder), folder)
    equal = weights(folder)[0] == expected
    print(
        json.dumps({"killed": killed, "resumed": resumed, "equal_weights": equal}),
        flush=True,
    )


if __name__ == "__main__":
    command_line.run(main)
