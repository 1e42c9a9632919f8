"""create_pretraining_data.py: the flags, their defaults, and the program's messages."""

import re

from json_files import read_json
from run_programs import assert_refused, run_lines, run_main
from tiny_corpus import WORDS, corpus, text_of

from bert_tf.record_creation.records_config import RecordsConfig

# The flags of google-research/bert's create_pretraining_data.py and their defaults. The
# default of do_lower_case is the casing of the vocabulary.
RELEASED = {
    "input_file": None, "output_file": None, "vocab_file": None, "do_lower_case": None,
    "do_whole_word_mask": False, "max_seq_length": 128, "max_predictions_per_seq": 20,
    "random_seed": 12345, "dupe_factor": 10, "masked_lm_prob": 0.15,
    "short_seq_prob": 0.1,
}  # fmt: skip


def test_program_runs_resumes_refuses_and_has_the_released_defaults(
    tmp_path, vocab_file
):
    source, output = tmp_path / "corpus.txt", tmp_path / "out" / "data.tfrecord"
    source.write_text(text_of(corpus(10)))
    arguments = [f"--output_file={output}", f"--vocab_file={vocab_file}"]
    good = [f"--input_file={source}", *arguments]
    made, again, none, missing, negative, help_ = run_main(
        "bert_tf.data_prep.create_pretraining_data",
        good,
        good,
        [f"--input_file={tmp_path}/none*.txt", *arguments],
        arguments,
        [*good, "--num_workers=-3"],
        ["--help"],
    )
    assert made.code == 0, made.err
    assert "examples" in made.out
    assert "nothing to do" in again.out
    assert_refused(none, "No input file matches")
    assert_refused(missing, "Give either --input_file or --tfds_name")
    assert_refused(negative, "--num_workers=-3")
    shown = {
        name: text.partition("Default: ")[2].strip(". \n")
        for name, text in re.findall(
            r"^  --(\w+)=.*\n((?:      .*\n?)+)", help_.out, re.M
        )
    }
    for name, default in RELEASED.items():
        assert shown[name] == ("" if default is None else str(default).lower()), name


def test_paragraphs_and_joined_files_are_not_lost_without_a_word(tmp_path, vocab_file):
    words = " ".join(WORDS[:30]) + ". "
    paragraphs = tmp_path / "paragraphs.txt"
    paragraphs.write_text(
        "\n\n".join("\n".join([words * 10] * 4) for _ in range(5)) + "\n"
    )
    for number in range(4):
        (tmp_path / f"part{number}.txt").write_text(
            f"{words}\n" * 9 + "\n" * (number == 1)
        )
    base = f"--vocab_file={vocab_file} --dupe_factor=1 --num_workers=1 --output_file="
    long = f"/a.tfrecord --input_file={paragraphs}"
    parts = f"/a.tfrecord --input_file={tmp_path}/part"
    masks = f"{parts}*.txt --max_seq_length=512"
    lines = (
        f"refused{long}",
        f"allowed{long} --allow_truncation",
        f"split{long} --split_sentences",
        f"short{parts}*.txt --max_seq_length=8",
        f"joined{parts}*.txt",
        f"apart{parts}*.txt --break_documents_at_files",
        f"one{parts}[02].txt",
        f"masks{masks}",
        f"enough{masks} --max_predictions_per_seq=77",
    )
    refused, allowed, split, short, joined, apart, one, masks, enough = run_lines(
        "bert_tf.data_prep.create_pretraining_data",
        *(f"{base}{tmp_path}/{line}" for line in lines),
    )
    # A pair of two paragraphs has 620 tokens, of which 125 are kept.
    removed = "Truncation to --max_seq_length=128 removes 79.8% of the tokens of"
    text = f"error: {removed} {paragraphs}. "
    assert text in refused.err and refused.code == 2
    assert "give --split_sentences, else" in refused.err
    assert "give --allow_truncation." in refused.err
    assert not list((tmp_path / "refused").iterdir())
    successful = allowed, split, short, joined, apart, masks, enough
    assert not any(result.code for result in successful), successful
    assert "warning: Truncation to" in allowed.err
    assert "Truncation" not in split.err
    assert "  text            5 documents, 200 sentences\n" in split.out
    assert "warning: Truncation to --max_seq_length=8 removes" in short.err
    assert "2 documents, 36 sentences" in joined.out
    assert "warning: 4 files gave 2 documents. A document continues in" in joined.err
    assert "give --break_documents_at_files." in joined.err
    assert "4 documents, 36 sentences" in apart.out and "files" not in apart.err
    assert one.code == 2 and "part2.txt is one document" in one.err
    assert "give --break_documents_at_files." in one.err
    assert "--max_predictions_per_seq=20 masks 3.9% of 512 tokens; " in masks.err
    assert "--max_predictions_per_seq=77 masks 15.0%." in masks.err
    assert "masks" not in enough.err and "masks" not in apart.err
    facts = read_json(tmp_path / "apart/a.manifest.json")
    assert (facts["documents"], facts["sentences"]) == ({"train": 4}, {"train": 36})
    # The bytes are the same.
    names = {
        RecordsConfig("", allow_truncation=allowed).fingerprint("", [])
        for allowed in (False, True)
    }
    assert len(names) == 1
