"""create_pretraining_data.py: the flags, their defaults, and the program's messages."""

import re

import pytest
from run_programs import assert_refused, run_main
from tiny_corpus import corpus, text_of, vocabulary_file

from bert_tf.data_prep.pretraining_data.settings import RecordsConfig
from bert_tf.errors import InputError


@pytest.fixture
def vocab_file(tmp_path):
    return vocabulary_file(tmp_path)


@pytest.mark.parametrize(
    "flags",
    [
        {"max_seq_length": 4},
        {"max_predictions_per_seq": 0},
        {"dupe_factor": 0},
        {"masked_lm_prob": 1.5},
        {"mask_token_prob": 0.8, "random_token_prob": 0.3},
        {"eval_fraction": 1.0},
        {"objective": "nsp"},
    ],
)
def test_settings_out_of_range_are_refused(flags):
    with pytest.raises(InputError, match=next(iter(flags))):
        RecordsConfig("vocab.txt", **flags)


# The flags of google-research/bert's create_pretraining_data.py and their defaults. The default of
# do_lower_case is the casing of the vocabulary.
RELEASED = {
    "input_file": None, "output_file": None, "vocab_file": None, "do_lower_case": None,
    "do_whole_word_mask": False, "max_seq_length": 128, "max_predictions_per_seq": 20,
    "random_seed": 12345, "dupe_factor": 10, "masked_lm_prob": 0.15, "short_seq_prob": 0.1,
}  # fmt: skip


def test_program_runs_resumes_refuses_and_has_the_released_defaults(tmp_path, vocab_file):
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
    assert_refused(missing, "--input_file or --tfds_name is required")
    assert_refused(negative, "--num_workers=-3")
    shown = {
        name: text.partition("Default: ")[2].strip(". \n")
        for name, text in re.findall(r"^  --(\w+)=.*\n((?:      .*\n?)+)", help_.out, re.M)
    }
    for name, default in RELEASED.items():
        assert shown[name] == ("" if default is None else str(default).lower()), name
