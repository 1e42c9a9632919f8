"""Small files in the formats of the paper's data sets, with words of `tiny_corpus`."""

import random

from json_files import write_json
from tiny_corpus import WORDS

NLI = ["contradiction", "entailment", "neutral"]
ENTAILMENT = ["entailment", "not_entailment"]
BINARY = ["0", "1"]
# For each task of GLUE: the header line, None for none, and the columns and labels of
# its files. In a column, "a" and "b" are the texts and "label" is the label.
_PAIR = ("index", "sentence1", "sentence2", "label"), ("", "a", "b", "label")
GLUE = {
    "CoLA": (None, ("", "label", "", "a"), BINARY),
    "SST-2": (("sentence", "label"), ("a", "label"), BINARY),
    "MRPC": (("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"),
             ("label", "", "", "a", "b"), BINARY),
    "QQP": (("id", "qid1", "qid2", "question1", "question2", "is_duplicate"),
            ("", "", "", "a", "b", "label"), BINARY),
    "STS-B": (("index", "sentence1", "sentence2", "score"), ("", "a", "b", "label"),
              ["0.5", "2.0", "4.5"]),
    "MNLI": (("index", "sentence1", "sentence2", "gold_label"), ("", "a", "b", "label"),
             NLI),
    "QNLI": (("index", "question", "sentence", "label"), ("", "a", "b", "label"),
             ENTAILMENT),
    "RTE": (*_PAIR, ENTAILMENT),
}  # fmt: skip


def sentence(rng, label):
    """Returns words of which the first is determined by the number of a label."""
    return " ".join([WORDS[label], *rng.choices(WORDS[10:20], k=4)])


def write_glue(folder, tasks=tuple(GLUE)):
    """Writes train and dev files of tasks into folders.

    Returns the path of the folder.
    """
    rng = random.Random(0)
    for task in tasks:
        header, columns, labels = GLUE[task]
        devs = ("dev_matched", "dev_mismatched") if task == "MNLI" else ("dev",)
        (folder / task).mkdir(parents=True)
        for name, count in (("train", 40), *((dev, 9) for dev in devs)):
            lines = ["\t".join(header)] if header else []
            for number in range(count):
                label = number % len(labels)
                cells = {"a": sentence(rng, label), "b": sentence(rng, label),
                         "label": labels[label], "": str(number)}  # fmt: skip
                lines.append("\t".join(cells[column] for column in columns))
            (folder / task / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    return str(folder)


def write_squad(folder, version):
    """Writes train-vVERSION.json and dev-vVERSION.json.

    Returns the path of the folder.
    """
    rng = random.Random(1)
    folder.mkdir(exist_ok=True)
    for name, count in (("train", 40), ("dev", 6)):
        paragraphs = []
        for number in range(count):
            words = rng.sample(WORDS[:40], 8)
            context, answer = " ".join(words), words[3]
            start = context.index(answer)
            question = {
                "id": f"q{number}", "question": words[2], "is_impossible": False,
                "answers": [{"text": answer, "answer_start": start}],
            }  # fmt: skip
            other = {"id": f"n{number}", "question": WORDS[50], "is_impossible": True}
            more = [{**other, "answers": []}] if version == "2.0" else []
            paragraphs.append({"context": context, "qas": [question, *more]})
        data = {
            "version": version,
            "data": [{"title": "any", "paragraphs": paragraphs}],
        }
        write_json(folder / f"{name}-v{version}.json", data)
    return str(folder)


def write_conll(folder):
    """Writes train.txt, dev.txt and test.txt; the words determine the tags."""
    rng = random.Random(3)
    folder.mkdir()
    for name, count in (("train", 40), ("dev", 10), ("test", 10)):
        lines = []
        for number in range(count):
            if number % 5 == 0:
                lines += ["-DOCSTART- -X- -X- O", ""]
            for word in rng.choices(WORDS[:12], k=5):
                tag = {WORDS[0]: "B-PER", WORDS[1]: "B-LOC"}.get(word, "O")
                lines.append(f"{word} X X {tag}")
            lines.append("")
        (folder / f"{name}.txt").write_text("\n".join(lines))
    return str(folder)
