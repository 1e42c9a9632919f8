"""Prints SHA-256 of the files that all programs write, to compare two commits.

    python tools/output_hashes.py [--root=checkout] [--folder=work] > hashes.txt

Generates small data. Then runs the data stage, pretraining, the four tasks,
distillation, frozen features, the new words of a domain, conversion, feature
extraction, exports in all formats, and predictions with each exported file. All
programs that have the flag --deterministic get it. Each line of the output is a hash
and a path.

A refactoring must not change the output. Files that are different in each run are left
out: events of TensorBoard, metrics.jsonl, locks, and SavedModels and ONNX files, whose
predictions are compared instead. The reports of exports are hashed without times and
sizes, and with sorted lines.
"""

import argparse
import csv
import hashlib
import json
import pathlib
import random
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

_PEOPLE, _CITIES = ["ann", "bob", "carl", "dora"], ["rome", "oslo", "paris", "lima"]
_FUNCTION_WORDS = ["lives", "in", "and", "likes", "a", "with"]
_CONTENT_WORDS = ["good", "bad", "long", "film", "plot"]

_IGNORED = (
    "events.out",
    "metrics.jsonl",
    ".lock",
    "saved_model.pb",
    "fingerprint.pb",
    "variables/",
    "/onnx/",
)
# Older commits wrote the outputs of a SavedModel to the report in a random order. Times
# differ, and so do the sizes of ONNX files, because the names in their graphs differ.
_REPORTS = ("export_report.json", "model_card.md")
_DIFFERENT = (
    "thread",
    "load_ms",
    "size_bytes",
    ".tflite |",
    ".onnx |",
    ".onnx, OpenVINO",
)

_VOCABULARY = "--vocab_file=vocab.txt"
_RECORDS = f"--input_file=corpus.txt --max_seq_length=32 {_VOCABULARY}"
_MODEL = f"--bert_config_file=config.json --deterministic=true {_VOCABULARY}"
_PRETRAINING = f"""{_MODEL} --do_train=true --do_eval=true --num_train_steps=20
    --num_warmup_steps=2 --learning_rate=1e-3 --train_batch_size=8 --max_eval_steps=4
    --save_checkpoints_steps=10"""
_TASK = """--do_train=true --do_eval=true --do_predict=true --deterministic=true
    --max_seq_length=32 --train_batch_size=8 --num_train_epochs=20"""
_FINE_TUNING = f"{_TASK} {_MODEL} --init_checkpoint=pretrained --learning_rate=1e-3"
_FEATURES = f"{_TASK} --init_checkpoint=pretrained --approach=features"

# A paragraph is a command, or a comment.
_COMMANDS = f"""
train_vocabulary --input_file=corpus.txt --output_file=vocab.txt --vocab_size=64
    --num_unused_tokens=4

# Records: with the default masks, with whole words masked, and without masks.

create_pretraining_data {_RECORDS} --output_file=static.tfrecord --dupe_factor=2

create_pretraining_data {_RECORDS} --output_file=words.tfrecord --dupe_factor=2
    --do_whole_word_mask=true --num_workers=2 --compression=gzip --eval_fraction=0.2

create_pretraining_data {_RECORDS} --output_file=unmasked.tfrecord --dupe_factor=1
    --masking=dynamic --eval_fraction=0.2

inspect_records --input_file=static.tfrecord {_VOCABULARY}

# Pretraining: with the masks of the records, and with masks made while training.

run_pretraining {_PRETRAINING} --input_file=static.tfrecord --output_dir=pretrained

run_pretraining {_PRETRAINING} --input_file=unmasked.tfrecord --output_dir=dynamic
    --eval_input_file=unmasked.eval-* --do_whole_word_mask=true

adapt_vocabulary --init_checkpoint=pretrained --input_file=corpus.txt --num_words=6
    --output_dir=adapted

# The four tasks.

run_classifier {_FINE_TUNING} --task_name=SST-2 --data_dir=sst2 --output_dir=classifier

run_squad {_FINE_TUNING} --train_file=squad.json --predict_file=squad.json
    --output_dir=squad --doc_stride=8 --max_query_length=8

run_swag {_FINE_TUNING} --data_dir=swag --output_dir=choice

run_ner {_FINE_TUNING} --data_dir=conll --output_dir=ner

# A student of one layer, and heads on a frozen encoder, with their learning rate.

run_classifier {_TASK} --task_name=SST-2 --data_dir=sst2 --output_dir=student
    --teacher=classifier --init_layers=1 --learning_rate=1e-3
    --unlabelled_file=sst2/test.tsv

run_classifier {_FEATURES} --task_name=SST-2 --data_dir=sst2 --feature_layers=last
    --output_dir=frozen_classifier

run_ner {_FEATURES} --data_dir=conll --feature_layers=weighted_sum_all --head=bilstm
    --lstm_size=16 --output_dir=frozen_ner

# Other files of the trained models.

convert_checkpoint --from=classifier --to=hugging_face --dialect=hugging_face

extract_features --input_file=texts.txt --output_file=features.jsonl
    --init_checkpoint=pretrained --layers=-1,-2 --max_seq_length=32

export_model --checkpoint=classifier --export_dir=served --format=both

export_model --checkpoint=classifier --export_dir=served_onnx --format=onnx

export_model --checkpoint=squad --export_dir=served_squad --format=both

export_model --checkpoint=ner --export_dir=served_ner --format=onnx

export_model --checkpoint=frozen_ner --export_dir=served_frozen_ner

export_model --checkpoint=choice --export_dir=served_choice --format=tflite

export_model --checkpoint=pretrained --export_dir=served_words

export_model --checkpoint=pretrained --export_dir=served_vectors --format=tflite
    --task=embedding --tflite_length=16 --tflite_text_input=true
"""
# The inputs of the exported models; texts.txt for all others.
_INPUTS = {
    "served_squad": "questions.csv",
    "served_choice": "choices.jsonl",
    "served_words": "masked.txt",
}
_DATA_PREP = ("train_vocabulary", "create_pretraining_data", "inspect_records")


def main() -> None:
    """Runs all programs, then prints the hashes."""
    parser = argparse.ArgumentParser(description="Prints SHA-256 of written files.")
    parser.add_argument("--root", default=str(ROOT), help="checkout with the programs")
    parser.add_argument("--folder", help="a new folder for the files")
    given = parser.parse_args()

    folder = pathlib.Path(given.folder or tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    _write_data(folder)

    for paragraph in _COMMANDS.split("\n\n"):
        words = shlex.split(paragraph, comments=True)
        if words:
            _run(given.root, folder, words)
        if words[:1] == ["train_vocabulary"]:
            _write_config(folder)

    for export in sorted(folder.glob("served*")):
        _predict(given.root, folder, export.name)

    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and not any(part in name for part in _IGNORED):
            print(_sha256(path), name)


def _run(root: str, folder: pathlib.Path, words: list[str]) -> None:
    print(*words, file=sys.stderr)
    program, *flags = words
    part = "data_prep" if program in _DATA_PREP else "run_scripts"

    installed = pathlib.Path(root) / ".venv/bin/python"  # with that checkout installed
    python = installed if installed.exists() else sys.executable

    with (folder / f"{program}.out").open("a") as output:
        command = [python, pathlib.Path(root) / part / f"{program}.py", *flags]
        subprocess.run(command, cwd=folder, stdout=output, check=True)


def _predict(root: str, folder: pathlib.Path, export: str) -> None:
    """Predicts with the SavedModel of an export, and with each of its other files."""
    version = folder / export / "1"
    paths = [*version.glob("*/*.tflite"), *version.glob("*/*.onnx")]
    models = sorted(str(path.relative_to(folder)) for path in paths)
    if (version / "saved_model.pb").exists():
        models.append(export)

    texts = _INPUTS.get(export, "texts.txt")
    is_csv = texts.endswith(".csv")
    ending = ".csv" if is_csv else ".jsonl"

    for model in models:
        output = f"predicted_{model.replace('/', '_')}{ending}"
        words = ["predict", f"--model={model}", f"--input_file={texts}"]
        words += [f"--output_file={output}"] + ([] if is_csv else ["--format=jsonl"])
        _run(root, folder, words)


def _sha256(path: pathlib.Path) -> str:
    content = path.read_bytes()
    if path.name in _REPORTS:
        lines = content.decode().splitlines()
        equal = [line for line in lines if not any(part in line for part in _DIFFERENT)]
        content = "\n".join(sorted(equal)).encode()
    return hashlib.sha256(content).hexdigest()


def _sentence(rng: random.Random) -> list[str]:
    words = [rng.choice(_PEOPLE), "lives", "in", rng.choice(_CITIES)]
    others = rng.choices(_FUNCTION_WORDS + _CONTENT_WORDS, k=rng.randint(1, 12))
    return [*words, *others, "."]


def _write_data(folder: pathlib.Path) -> None:
    rng = random.Random(0)

    # Texts for the vocabulary and records, and for predictions.
    documents = [[_sentence(rng) for _ in range(rng.randint(2, 12))] for _ in range(60)]
    corpus = "\n\n".join("\n".join(map(" ".join, document)) for document in documents)
    (folder / "corpus.txt").write_text(corpus + "\n")

    texts = [" ".join(_sentence(rng)) + "\n" for _ in range(9)]
    (folder / "texts.txt").write_text("".join(texts))
    (folder / "masked.txt").write_text("".join(f"[MASK] {text}" for text in texts))

    # Labelled examples.
    for name in ("sst2", "conll", "swag"):
        (folder / name).mkdir()
    for name, count in (("train", 48), ("dev", 12), ("test", 12)):
        _write_sst2(folder / f"sst2/{name}.tsv", count, rng)
        _write_tags(folder / f"conll/{name}.conll", count, rng)
    for name, count in (("train", 40), ("val", 12), ("test", 12)):
        _write_swag(folder / f"swag/{name}.csv", count, rng)
    _write_squad(folder / "squad.json", 30, rng)

    # Questions and choices, for predictions.
    rows = [["ann lives in", " ".join(_sentence(rng))] for _ in range(5)]
    with (folder / "questions.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["question", "context"], *rows])
    with (folder / "choices.jsonl").open("w") as file:
        for text in texts:
            row = {"context": text.strip(), "choices": ["good film .", "bad plot ."]}
            file.write(json.dumps(row) + "\n")


def _write_config(folder: pathlib.Path) -> None:
    entries = len((folder / "vocab.txt").read_text().splitlines())
    config = {
        "vocab_size": entries,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 64,
        "type_vocab_size": 2,
        "initializer_range": 0.2,
    }
    (folder / "config.json").write_text(json.dumps(config))


def _write_sst2(path: pathlib.Path, count: int, rng: random.Random) -> None:
    with_label = path.stem != "test"
    rows = ["sentence\tlabel" if with_label else "index\tsentence"]
    for number in range(count):
        label = rng.randint(0, 1)
        text = " ".join(_sentence(rng)) + (" bad", " good")[label]
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


def _write_swag(path: pathlib.Path, count: int, rng: random.Random) -> None:
    with_label = path.stem != "test"
    names = ["", "video-id", "fold-ind", "startphrase", "sent1", "sent2", "gold-source"]
    names += [f"ending{number}" for number in range(4)]
    if with_label:
        names.append("label")

    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for number in range(count):
            first, label = " ".join(_sentence(rng)), rng.randint(0, 3)
            row = [number, "v", number, f"{first} a", first, "a", "gold"]
            row += [f"{'good' if i == label else 'bad'} film ." for i in range(4)]
            writer.writerow([*row, label] if with_label else row)


def _write_squad(path: pathlib.Path, count: int, rng: random.Random) -> None:
    paragraphs = []
    for number in range(count):
        sentences = [_sentence(rng) for _ in range(3)]
        context = " ".join(" ".join(words) for words in sentences)
        person, city = sentences[0][0], sentences[0][3]

        question = {
            "id": f"q{number}",
            "question": f"{person} lives in",
            "answers": [{"text": city, "answer_start": context.index(city)}],
        }
        paragraphs.append({"context": context, "qas": [question]})

    data = {"version": "1.1", "data": [{"title": "people", "paragraphs": paragraphs}]}
    path.write_text(json.dumps(data))


if __name__ == "__main__":
    main()
