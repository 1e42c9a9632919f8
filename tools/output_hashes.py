"""Prints SHA-256 of the files that all programs write in small runs, to compare two commits.

    python tools/output_hashes.py [--root=checkout] [--folder=work] > hashes.txt

Generates small data, and runs the data stage, pretraining, the four tasks, conversion,
export, prediction and feature extraction, all with --deterministic where the program
has this flag. Each line of the output is a hash and a path. Files that contain times or
the path of the folder are left out: events of TensorBoard, metrics.jsonl, locks and
SavedModels, whose predictions are compared instead. A refactoring must not change the
output.
"""

import argparse
import csv
import hashlib
import json
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
_PEOPLE, _CITIES = ["ann", "bob", "carl", "dora"], ["rome", "oslo", "paris", "lima"]
_OTHERS = [
    "lives",
    "in",
    "and",
    "likes",
    "a",
    "good",
    "bad",
    "long",
    "film",
    "plot",
    "with",
]
_IGNORED = (
    "events.out",
    "metrics.jsonl",
    ".lock",
    "saved_model.pb",
    "fingerprint.pb",
    "variables/",
)
_MODEL = [
    "--bert_config_file=config.json",
    "--vocab_file=vocab.txt",
    "--deterministic=true",
]
_TASK = [
    *_MODEL, "--do_train=true", "--do_eval=true", "--do_predict=true",
    "--init_checkpoint=pretrained", "--max_seq_length=32", "--train_batch_size=8",
    "--num_train_epochs=1", "--learning_rate=1e-3",
]  # fmt: skip
_COMMANDS = (
    ("train_vocabulary", "--input_file=corpus.txt", "--output_file=vocab.txt", "--vocab_size=60",
     "--num_unused_tokens=0"),
    ("create_pretraining_data", "--output_file=static.tfrecord", "--max_seq_length=32"),
    ("create_pretraining_data", "--output_file=words.tfrecord", "--max_seq_length=32",
     "--do_whole_word_mask=true", "--num_workers=2", "--compression=gzip", "--eval_fraction=0.2"),
    ("inspect_records", "--input_file=static.tfrecord"),
    ("run_pretraining", "--input_file=static.tfrecord", "--output_dir=pretrained", *_MODEL,
     "--do_train=true", "--do_eval=true", "--num_train_steps=8", "--num_warmup_steps=2",
     "--train_batch_size=8", "--max_eval_steps=4", "--save_checkpoints_steps=4"),
    ("run_classifier", "--task_name=SST-2", "--data_dir=sst2",
     "--output_dir=classifier", *_TASK),
    ("run_squad", "--train_file=squad.json", "--predict_file=squad.json", "--output_dir=squad",
     "--doc_stride=8", "--max_query_length=8", *_TASK),
    ("run_swag", "--data_dir=swag", "--output_dir=choice", *_TASK),
    ("run_ner", "--data_dir=conll", "--output_dir=ner", *_TASK),
    ("convert_checkpoint", "--from=classifier", "--to=hugging_face", "--dialect=hugging_face"),
    ("export_model", "--checkpoint=classifier", "--export_dir=served", "--format=both"),
    ("export_model", "--checkpoint=squad", "--export_dir=served_squad"),
    ("predict", "--model=served", "--input_file=texts.txt", "--output_file=texts.jsonl"),
    ("predict", "--model=served_squad", "--input_file=questions.csv", "--output_file=answers.csv"),
    ("extract_features", "--input_file=texts.txt", "--output_file=features.jsonl",
     "--init_checkpoint=pretrained", "--layers=-1,-2", "--max_seq_length=32"),
)  # fmt: skip
_DATA_PREP = ("train_vocabulary", "create_pretraining_data", "inspect_records")


def main() -> None:
    """Runs all programs, then prints the hashes."""
    parser = argparse.ArgumentParser(
        description="Prints SHA-256 of the files of small runs."
    )
    parser.add_argument(
        "--root", default=str(ROOT), help="the checkout whose programs run"
    )
    parser.add_argument("--folder", help="a new folder for the files")
    given = parser.parse_args()
    folder = pathlib.Path(given.folder or tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    _write_data(folder)
    for program, *words in _COMMANDS:
        if program == "create_pretraining_data":
            words += [
                "--input_file=corpus.txt",
                "--vocab_file=vocab.txt",
                "--dupe_factor=2",
            ]
        if program == "inspect_records":
            words += ["--vocab_file=vocab.txt"]
        _run(given.root, folder, program, words)
        if program == "train_vocabulary":
            _write_config(folder)
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and not any(part in name for part in _IGNORED):
            print(hashlib.sha256(path.read_bytes()).hexdigest(), name)


def _run(root: str, folder: pathlib.Path, program: str, words: list[str]) -> None:
    print(program, *words, file=sys.stderr)
    part = "data_prep" if program in _DATA_PREP else "run_scripts"
    installed = (
        pathlib.Path(root) / ".venv/bin/python"
    )  # in which that checkout is installed
    python = installed if installed.exists() else sys.executable
    with (folder / f"{program}.out").open("a") as output:
        command = [python, pathlib.Path(root) / part / f"{program}.py", *words]
        subprocess.run(command, cwd=folder, stdout=output, check=True)


def _sentence(rng: random.Random) -> list[str]:
    words = [rng.choice(_PEOPLE), "lives", "in", rng.choice(_CITIES)]
    return [*words, *rng.choices(_OTHERS, k=rng.randint(1, 12)), "."]


def _write_data(folder: pathlib.Path) -> None:
    rng = random.Random(0)
    documents = [[_sentence(rng) for _ in range(rng.randint(2, 12))] for _ in range(60)]
    text = "\n\n".join("\n".join(map(" ".join, document)) for document in documents)
    (folder / "corpus.txt").write_text(text + "\n")
    (folder / "texts.txt").write_text(
        "".join(" ".join(_sentence(rng)) + "\n" for _ in range(9))
    )
    for name in ("sst2", "conll", "swag"):
        (folder / name).mkdir()
    for name, count in (("train", 48), ("dev", 12), ("test", 12)):
        _write_sst2(folder / f"sst2/{name}.tsv", count, rng, with_label=name != "test")
        _write_tags(folder / f"conll/{name}.conll", count, rng)
    for name, count in (("train", 40), ("val", 12), ("test", 12)):
        _write_swag(folder / f"swag/{name}.csv", count, rng, with_label=name != "test")
    _write_squad(folder / "squad.json", 30, rng)
    rows = [
        ["question", "context"],
        *(["ann lives in", " ".join(_sentence(rng))] for _ in range(5)),
    ]
    with (folder / "questions.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def _write_config(folder: pathlib.Path) -> None:
    entries = len((folder / "vocab.txt").read_text().splitlines())
    config = {
        "vocab_size": entries, "hidden_size": 16, "num_hidden_layers": 2,
        "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 64,
        "type_vocab_size": 2,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))


def _write_sst2(
    path: pathlib.Path, count: int, rng: random.Random, with_label: bool
) -> None:
    rows = ["sentence\tlabel" if with_label else "index\tsentence"]
    for number in range(count):
        label, text = rng.randint(0, 1), " ".join(_sentence(rng))
        text += (" bad", " good")[label]
        rows.append(f"{text}\t{label}" if with_label else f"{number}\t{text}")
    path.write_text("\n".join(rows) + "\n")


def _write_tags(path: pathlib.Path, count: int, rng: random.Random) -> None:
    lines = []
    for _ in range(count):
        for word in _sentence(rng):
            kind = "B-PER" if word in _PEOPLE else "B-LOC" if word in _CITIES else "O"
            lines.append(f"{word} {kind}")
        lines.append("")
    path.write_text("\n".join(lines))


def _write_swag(
    path: pathlib.Path, count: int, rng: random.Random, with_label: bool
) -> None:
    endings = [f"ending{number}" for number in range(4)]
    names = [
        "",
        "video-id",
        "fold-ind",
        "startphrase",
        "sent1",
        "sent2",
        "gold-source",
        *endings,
    ]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*names, *(["label"] if with_label else [])])
        for number in range(count):
            first, label = " ".join(_sentence(rng)), rng.randint(0, 3)
            choices = [f"{'good' if i == label else 'bad'} film ." for i in range(4)]
            row = [number, "v", number, f"{first} a", first, "a", "gold", *choices]
            writer.writerow([*row, *([label] if with_label else [])])


def _write_squad(path: pathlib.Path, count: int, rng: random.Random) -> None:
    paragraphs = []
    for number in range(count):
        sentences = [_sentence(rng) for _ in range(3)]
        context = " ".join(" ".join(words) for words in sentences)
        person, city = sentences[0][0], sentences[0][3]
        answer = {"text": city, "answer_start": context.index(city)}
        question = {
            "id": f"q{number}",
            "question": f"{person} lives in",
            "answers": [answer],
        }
        paragraphs.append({"context": context, "qas": [question]})
    data = {"version": "1.1", "data": [{"title": "people", "paragraphs": paragraphs}]}
    path.write_text(json.dumps(data))


if __name__ == "__main__":
    main()
