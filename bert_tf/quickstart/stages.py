"""The stages of the quickstart: their commands, their state, and how they run."""

import dataclasses
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from bert_tf.config import BertConfig
from bert_tf.storage.files import write_json

# Number of evaluations during pretraining, evenly spaced, and the size of their
# batches.
NUM_EVALUATIONS = 6
_BATCH_SIZE = 64
# The commands, as a user could type them.
SAMPLE_DATA = """
data_prep/make_sample_data.py --output_dir={folder}/sample --max_documents={documents}
"""
VOCABULARY = """
data_prep/train_vocabulary.py --input_file={folder}/sample/corpus/train.txt
    --output_file={folder}/vocab.txt --vocab_size={vocab_size} --num_unused_tokens=0
"""
RECORDS = """
data_prep/create_pretraining_data.py --input_file={folder}/sample/corpus/{part}.txt
    --output_file={folder}/records/{part}.tfrecord --vocab_file={folder}/vocab.txt
    --dupe_factor={dupe_factor} --max_seq_length=64 --max_predictions_per_seq=10
"""
PRETRAINING = """
run_scripts/run_pretraining.py --input_file={folder}/records/train.tfrecord
    --eval_input_file={folder}/records/heldout.tfrecord --output_dir={folder}/pretrained
    --bert_config_file={folder}/bert_config.json --vocab_file={folder}/vocab.txt
    --do_train=true
    --max_seq_length=64 --max_predictions_per_seq=10 --train_batch_size={batch_size}
    --eval_batch_size={batch_size} --learning_rate=0.001 --do_eval=true
    --max_eval_steps=0 --num_train_steps={num_train_steps} --eval_steps={interval}
    --save_checkpoints_steps={interval}
"""
FINE_TUNING = """
run_scripts/run_classifier.py --task_name=custom
    --data_dir={folder}/sample/classification --init_checkpoint={folder}/pretrained
    --output_dir={folder}/classifier --do_train=true
    --do_eval=true --do_predict=true --max_seq_length=64 --learning_rate=0.0003
    --num_train_epochs={num_train_epochs} --eval_batch_size={batch_size}
    --predict_batch_size={batch_size}
"""
EXPORT = """
run_scripts/export_model.py --checkpoint={folder}/classifier
    --export_dir={folder}/export --example_texts=8
"""
ANSWERS = """
run_scripts/quickstart_answers.py {folder}/export/1
    {folder}/sample/classification/test.tsv {folder}/answers.json
"""


@dataclasses.dataclass(frozen=True)
class Size:
    """The settings in which the full and the small version of the quickstart differ."""

    documents: int
    vocab_size: int
    dupe_factor: int
    num_train_steps: int
    num_train_epochs: float

    def bert_config(self) -> BertConfig:
        """Returns the configuration of a BERT that trains in minutes.

        The initializer_range of google-research/bert, 0.02, suits 768 hidden units.
        This model has 128 hidden units. With 128, an initializer_range of 0.08, close
        to 1 / sqrt(128), keeps the scale of the activations. docs/results.md compares
        0.02 and 0.08. Dropout is 0: training covers less than one epoch of the text, so
        dropout would only slow down learning.
        """
        return BertConfig.named(
            "tiny",
            self.vocab_size,
            max_position_embeddings=128,
            initializer_range=0.08,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )


FULL = Size(
    0, vocab_size=8000, dupe_factor=5, num_train_steps=2280, num_train_epochs=3.0
)
SMOKE = Size(
    2000, vocab_size=3000, dupe_factor=2, num_train_steps=240, num_train_epochs=6.0
)


@dataclasses.dataclass
class Stages:
    """Runs stages in the order of the calls, and skips stages that are complete.

    Attributes:
        root: The folder of the repository, whose programs run.
        folder: The output folder.
        secs: The seconds of each stage that has run, by name.
    """

    root: str
    folder: str
    size: Size
    secs: dict[str, float] = dataclasses.field(default_factory=dict)

    def run(self, name: str, result: str, *texts: str, **values: object) -> None:
        """Runs the commands of a stage, `texts`, unless the stage is complete.

        `result` is the path of the main result, relative to the output folder. `values`
        replace placeholders in `texts`, in addition to the folder and the settings.
        """
        # The words of the commands, with the settings.
        values |= {"folder": self.folder, "batch_size": _BATCH_SIZE, **vars(self.size)}
        commands = [
            [word.format_map(values) for word in text.split()] for text in texts
        ]

        # The state of an earlier call, which is written before any result.
        path = f"{self.folder}/stages/{name.replace(' ', '_')}.json"
        state = (
            read_json(path) if os.path.exists(path) else {"secs": 0.0, "done": False}
        )
        write_json(path, state)

        if state["done"] and os.path.exists(f"{self.folder}/{result}"):
            print(f"== {name}: already complete", file=sys.stderr)
        else:
            print(f"== {name}", file=sys.stderr)
            started = time.monotonic()
            try:
                for command in commands:
                    run_command([os.path.join(self.root, command[0]), *command[1:]])
                state["done"] = True
            finally:
                state["secs"] += time.monotonic() - started
                write_json(path, state)
        self.secs[name] = state["secs"]


def run_command(words: Sequence[str]) -> None:
    """Runs a program with its arguments; exits with the program's code if it fails.

    The program has a session of its own, so that Ctrl-C ends only this process. After
    Ctrl-C or SIGTERM, this process sends the program one SIGTERM, and the program saves
    a checkpoint.
    """
    command = [sys.executable, *words]
    print("$ " + shlex.join(command), file=sys.stderr)
    process = subprocess.Popen(command, start_new_session=True)
    try:
        code = process.wait()
    finally:
        process.terminate()  # no effect if the program has ended
        process.wait()
    if code:
        sys.exit(code if code > 0 else 128 - code)  # the program has printed a message


def read_json(path: str) -> dict[str, Any]:
    """Reads a JSON object that a stage wrote, without an import of TensorFlow."""
    with open(path, encoding="utf-8") as file:
        return dict(json.load(file))
