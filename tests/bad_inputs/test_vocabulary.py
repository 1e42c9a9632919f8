"""Wrong flags of vocabulary training, and a casing that contradicts the vocabulary."""

import dataclasses
import re

import pytest
from json_files import read_json, write_json
from run_programs import assert_refused, run_mains
from tiny_bert import CONFIG, SPECIAL

import bert_tf
from bert_tf.tokenization.vocabulary import write_vocabulary

TOKENS = [*SPECIAL, "ein", "Haus", "##er", "."]
TRAIN = "data_prep.train_vocabulary"
RECORDS = "data_prep.create_pretraining_data"
CASED = "cased.txt was learned from text with --do_lower_case=False"
LOWER = "lower.txt was learned from text with --do_lower_case=True"
RUN = (
    "--bert_config_file=config.json --output_dir=run --do_train=true --max_seq_length=8"
)

# (program, flags, words of the message)
ROWS = [
    (TRAIN, "--vocab_size=0", ["--vocab_size must be from 105", "Received: 0"]),
    (TRAIN, "--vocab_size=6 --num_unused_tokens=0", ["1 characters take 2 entries"]),
    (TRAIN, "--num_workers=0", ["--num_workers=0"]),
    (TRAIN, "--input_file=blank.txt", ["There are no words in the text"]),
    # The casing of new.txt is written to new.txt.json.
    (TRAIN, "--input_file=text.txt.json --output_file=text.txt",
     ["text.txt.json is an input too"]),
    (TRAIN, "--output_file=other.txt", ["other.txt.json would be replaced",
     "other content"]),
    (RECORDS, "--vocab_file=cased.txt --do_lower_case=true",
     ["--do_lower_case is True", CASED]),
    (RECORDS, "--vocab_file=lower.txt --do_lower_case=false",
     ["--do_lower_case is False", LOWER]),
    (RECORDS, "--vocab_file=damaged.txt", ["damaged.txt.json is not JSON"]),
    ("data_prep.inspect_records",
     "--vocab_file=cased.txt --do_lower_case=true --input_file=x",
     [CASED]),
    ("run_scripts.run_pretraining", f"{RUN} --input_file=x --vocab_file=lower.txt "
     "--do_lower_case=false --num_train_steps=10 --num_warmup_steps=1", [LOWER]),
    ("run_scripts.run_classifier",
     f"{RUN} --task_name=cola --data_dir=. --vocab_file=cased.txt "
     "--do_lower_case=true", [CASED]),
    ("run_scripts.convert_checkpoint", "--from=model --to=x --vocab_file=cased.txt "
     "--do_lower_case=true", [CASED]),
]  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    for name in ("cased", "lower", "damaged", "replaced"):
        (tmp_path / f"{name}.txt").write_text("\n".join(TOKENS) + "\n")
    write_vocabulary(str(tmp_path / "replaced.txt"), TOKENS[:-1], True)
    (tmp_path / "replaced.txt").write_text("\n".join(TOKENS) + "\n")
    write_vocabulary(str(tmp_path / "cased.txt"), TOKENS, False)
    write_vocabulary(str(tmp_path / "lower.txt"), TOKENS, True)
    (tmp_path / "damaged.txt.json").write_text("{")
    write_json(tmp_path / "config.json", CONFIG)
    encoder = bert_tf.BertEncoder(bert_tf.BertConfig.from_dict(CONFIG))
    bert_tf.save_checkpoint(encoder, None, tmp_path / "model")
    (tmp_path / "text.txt.json").write_text("Ein Haus.\n")
    (tmp_path / "other.txt.json").write_text('{"my": "data"}')
    (tmp_path / "text.txt").write_text("Ein Haus.\nHäuser.\n\nDas Haus.\nDie Häuser.\n")
    (tmp_path / "blank.txt").write_text(" \n\n\t\n")
    for split in ("train", "dev"):
        (tmp_path / f"{split}.tsv").write_text("a\t1\t\tein Haus\n" * 8)
    return tmp_path


# Flags that those of a row replace.
DEFAULTS = {
    TRAIN: "--input_file=text.txt --output_file=new.txt",
    RECORDS: "--input_file=text.txt --output_file=new.tfrecord",
}


def test_bad_input_is_refused_in_one_line(folder):
    commands = [
        (f"bert_tf.{program}", f"{DEFAULTS.get(program, '')} {flags}".split())
        for program, flags, _ in ROWS
    ]
    results = run_mains(commands, cwd=folder, secs=60)
    for (_, _, words), result in zip(ROWS, results, strict=True):
        shown = re.sub("^counting words.*", "", result.err, flags=re.M)
        assert_refused(dataclasses.replace(result, err=shown), *words)
    assert not list(folder.glob("new*")) and not (folder / "run").exists()


def test_the_share_of_unk_is_reported_and_warned_about(folder):
    """The vocabulary has no umlauts; its casing file belongs to another vocabulary."""
    commands = [
        (TRAIN, "--input_file=text.txt --output_file=new/vocab.txt --vocab_size=130 "
         "--max_characters=8 --do_lower_case=false"),
        (RECORDS, "--input_file=text.txt --output_file=a.tfrecord --num_workers=1 "
         "--vocab_file=replaced.txt --do_lower_case=false --max_seq_length=16"),
        ("data_prep.inspect_records",
         "--input_file=a.tfrecord --vocab_file=replaced.txt --do_lower_case=false"),
        # The casing that is recorded for a vocabulary is the default.
        (RECORDS, "--input_file=text.txt --output_file=cased.tfrecord --num_workers=1 "
         "--vocab_file=cased.txt"),
    ]  # fmt: skip
    trained, created, inspected, cased = run_mains(
        [(f"bert_tf.{program}", flags.split()) for program, flags in commands],
        cwd=folder,
    )
    assert trained.code == 0, trained
    assert read_json(folder / "new/vocab.txt.json")["do_lower_case"] is False
    assert "become [UNK]. The text has 2 documents and 4 sentences." in trained.out
    assert "which is above 2%" in trained.err
    assert created.code == 0, created
    assert "WARNING" in created.out and "which is above 2%" in created.out
    assert "replaced.txt.json is ignored" in created.err
    report = read_json(folder / "a.stats.json")["train"]
    assert report["unknown_share"] == pytest.approx(
        report["unknown_tokens"] / report["text_tokens"], abs=1e-6
    )
    assert report["unknown_share"] > 0.2
    assert inspected.code == 1, inspected
    assert "NOT as expected: [UNK]" in inspected.out
    assert "every figure is as expected" not in inspected.out
    assert cased.code == 0, cased
    assert read_json(folder / "cased.manifest.json")["do_lower_case"] is False
