"""Extracts the program of docs/python.md, and writes the checkpoints that it loads."""

import json
import os
import pathlib
import re
import subprocess
import sys

import tiny_corpus

import bert_tf

DOCUMENT = pathlib.Path(__file__).parent.parent / "docs/python.md"

_PAIRS = "".join(
    f"{number % 2}\t1\t2\tA good film.\t{('Too long.', 'A good movie.')[number % 2]}\n"
    for number in range(12)
)
_ANSWER = {"question": "Who sang?", "answers": [{"text": "Ada", "answer_start": 0}]}
_PARAGRAPH = {
    "context": "Ada sang in the small house.",
    "qas": [{"id": str(number), **_ANSWER} for number in range(32)],
}
_TOPICS = "".join(f"film {'very ' * n}good,art fun\nlong,art\n" for n in range(20))
_CHOICE = {
    "context": "It rains.",
    "choices": ["Take an umbrella.", "Water it."],
    "label": 0,
}
# The content of the files that the document uses, by name.
DATA = {
    "glue/MRPC/train.tsv": f"Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n{_PAIRS}",
    "glue/MRPC/dev.tsv": f"Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n{_PAIRS}",
    "topics.csv": "text,topics\n" + _TOPICS,
    "new.csv": "text\ngood\n",
    "squad.json": json.dumps({"data": [{"title": "x", "paragraphs": [_PARAGRAPH]}]}),
    "entities.conll": "Ada B-PER\nsang O\n\n" * 32,
    "choices.jsonl": (json.dumps(_CHOICE) + "\n") * 32,
}


def program(document: pathlib.Path = DOCUMENT, section: str = "") -> str:
    """Returns the code in a document; each line has the same number as in the document.

    With `section`, it is the code below the heading of this name.

    The code consists of the blocks that are marked as Python, and of the last cells in
    the tables that compare bert-tf with another project.
    """
    lines, in_block, compares, is_inside = [], False, False, not section
    for line in document.read_text("utf-8").split("\n"):
        code = ""
        if section and line.startswith("## "):
            is_inside = line == f"## {section}"
        if line.startswith("```"):
            in_block = line == "```python"
        elif in_block:
            code = line
        elif line.startswith("|"):
            last_cell = line.split("|")[-2].strip()
            compares = compares or last_cell == "bert-tf"
            code = "; ".join(re.findall(r"`([^`]+)`", last_cell)) if compares else ""
        else:
            compares = False
        lines.append(code if is_inside else "")
    return "\n".join(lines)


def code_blocks(document: str, language: str) -> list[str]:
    """Returns the blocks of code in a document of docs/."""
    text = (DOCUMENT.parent / document).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def run_in(folder: pathlib.Path, *command: str, **environment: str) -> str:
    """Runs a command that finds this Python and the programs; returns its output."""
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    programs = folder / "run_scripts"
    if not programs.exists():
        programs.symlink_to(DOCUMENT.parent.parent / "run_scripts")
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True,
        env={**os.environ, "PATH": path, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_checkpoints(folder: pathlib.Path) -> None:
    """Writes tiny models with random weights under the names that the document uses."""
    text = DOCUMENT.read_text("utf-8") + " ".join(DATA.values())
    words = re.findall(r"[a-z]+|[.,?]", text.lower())
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = bert_tf.BertTokenizer([*special, *sorted(set(words))])
    config = bert_tf.BertConfig.named(
        "tiny", tokenizer.vocab_size, num_hidden_layers=1, initializer_range=0.08
    )
    model = bert_tf.BertPretrainer(config, seed=1)
    checkpoints = {
        "uncased_L-2_H-128_A-2": (model, "google"),
        "bert-base-uncased": (model, "hugging_face"),
        "bert_tiny_en_uncased": (model.bert, "keras_hub"),
    }
    for name, (saved, dialect) in checkpoints.items():
        bert_tf.save_checkpoint(saved, tokenizer, str(folder / name), dialect)
    for name, content in DATA.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, "utf-8")


def write_records(folder: pathlib.Path) -> None:
    """Writes the vocabulary and the pretraining records that the document uses."""
    (folder / "records").mkdir()
    vocab_file = tiny_corpus.vocabulary_file(folder)
    for seed, name in enumerate(("records/train-1.tfrecord", "records/eval.tfrecord")):
        text = tiny_corpus.text_of(tiny_corpus.corpus(20, seed, longest_sentence=8))
        tiny_corpus.make(
            folder,
            vocab_file,
            text,
            name,
            max_seq_length=32,
            max_predictions_per_seq=5,
        )
