"""adapt_vocabulary: the checkpoint, the report and the errors."""

import csv

import numpy as np
import pytest
import tiny_bert
from run_programs import run_mains

import bert_tf

PROGRAM = "bert_tf.run_scripts.adapt_vocabulary"
VOCABULARY = [
    *tiny_bert.VOCABULARY[:4],
    "[unused0]",
    *tiny_bert.VOCABULARY[4:],
    "B",
    "##a",
]
# Twenty documents. The 10th and the 20th are held out, and contain words of their own.
TEXT = "\n\n".join([*["acc a b.\nbc Bca \u2603"] * 9, "acc aca b."] * 2)


@pytest.fixture
def folder(tmp_path):
    config = bert_tf.BertConfig(**{**tiny_bert.CONFIG, "vocab_size": len(VOCABULARY)})
    tokenizer = bert_tf.BertTokenizer(VOCABULARY, do_lower_case=False)
    pretrainer = bert_tf.BertPretrainer(config, seed=0)
    bert_tf.save_checkpoint(pretrainer, tokenizer, tmp_path / "model")
    bert_tf.save_checkpoint(
        bert_tf.BertEncoder(config, seed=0), tokenizer, tmp_path / "encoder"
    )
    (tmp_path / "in.txt").write_text(TEXT, "utf-8")
    (tmp_path / "line.txt").write_text("acc", "utf-8")
    (tmp_path / "known.txt").write_text("a b. B", "utf-8")
    (tmp_path / "latin1.txt").write_bytes("acc bc\xe9\n".encode("latin-1"))
    (tmp_path / "short.txt").write_text("\n".join(VOCABULARY[:-3]) + "\n")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/notes.txt").write_text("mine")
    return tmp_path


def run(folder, *commands):
    pairs = [(command.split()[0], command.split()[1:]) for command in commands]
    return run_mains(pairs, cwd=folder)


def test_the_checkpoint_and_its_report(folder):
    adapt = f"{PROGRAM} --init_checkpoint=model --output_dir=out --input_file=in.txt"
    first, again, other = run(
        folder, adapt, f"{adapt} --num_words=2",
        f"{PROGRAM} --init_checkpoint=encoder --output_dir=new "
        "--input_file=line.txt,latin1.txt",
    )  # fmt: skip
    assert [each.code for each in (first, again, other)] == [0] * 3, first.err
    assert first.out.splitlines()[:10] == [
        "out: 4 new words, 1 in [unusedN] entries. The vocabulary has 16 entries "
        "(before: 12).",
        "2 of 20 documents are held out, with 8 words.",
        "  before: 2.000 tokens per word, 0.00% [UNK]",
        "  after: 1.500 tokens per word, 0.00% [UNK]",
        "The first words, of those in new_words.tsv:",
        "  id\tword\toccurrences\tformer pieces",
        "  4\tBca\t18\tB ##c ##a",
        "  12\tacc\t18\ta ##c ##c",
        "  13\tbc\t18\tb ##c",
        "  14\t☃\t18\t[UNK]",
    ]
    # The same folder was replaced: two words remain.
    with open(folder / "out/new_words.tsv", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t"))
    assert [row[1] for row in rows] == ["word", "Bca", "acc"]
    old, out, new = (bert_tf.load(folder / name) for name in ("model", "out", "new"))
    assert out.tokenizer.tokenize("acc Bca bc").numpy().tolist() == [12, 4, 7, 8]
    assert out.tokenizer.vocabulary[13:] == ["[unused1]", "[unused2]", "[unused3]"]
    for name, array in old.weights.items():
        rows = [each for each in range(12) if each != 4] if len(array) == 12 else ...
        np.testing.assert_array_equal(out.weights[name][rows], array[rows])
    assert "No words are held out: the text has 2 documents" in other.out
    assert "1 lines are not UTF-8, the first is latin1.txt:1." in other.err
    assert (
        new.tokenizer.vocabulary[4] == "acc" and new.weights.keys() < old.weights.keys()
    )


ROWS = [
    ("--init_checkpoint=model --input_file=known.txt",
     "All 4 distinct words of the text are in"),
    ("--init_checkpoint=model --input_file=in.txt --num_words=0",
     "num_words must be at least 1"),
    ("--init_checkpoint=model", "Give either --input_file or --tfds_name"),
    ("--init_checkpoint=model --input_file=-", "--input_file - is a pipe or a device"),
    ("--init_checkpoint=model --input_file=in.txt --output_dir=model",
     "model would be replaced, but belongs to the checkpoint that is read from model"),
    ("--init_checkpoint=model --input_file=in.txt --output_dir=notes",
     "contains notes.txt"),
    ("--init_checkpoint=model --input_file=in.txt --vocab_file=short.txt",
     "Leave out --vocab"),
    ("--init_checkpoint=model --input_file=in.txt --do_lower_case=true",
     "--do_lower_case=True"),
    ("--init_checkpoint=nowhere --input_file=in.txt", "There is no checkpoint nowhere"),
    ("--init_checkpoint= --input_file=in.txt --bert_config_file=model/bert_config.json",
     "The model is unknown. Give --init_checkpoint."),
]  # fmt: skip


def test_bad_input_ends_in_one_line_and_writes_nothing(folder):
    before = sorted(folder.rglob("*"))
    commands = [f"{PROGRAM} --output_dir=out {flags}" for flags, _ in ROWS]
    for result, (_, message) in zip(run(folder, *commands), ROWS, strict=True):
        *others, error = result.messages
        assert result.code == 2 and error.startswith("error: ") and message in error
        assert all(line.startswith("counting words: ") for line in others)
    assert sorted(folder.rglob("*")) == before
