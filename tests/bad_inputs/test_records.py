"""Wrong record files and flags of run_pretraining and inspect_records: exit code 2.

The files of the rows are in the folder of the fixture `folder`.
"""

import pytest
from hostile_records import SIZES, VALUES, frames, header, record, with_value, write
from refusals import refused_with
from run_programs import assert_refused, run_mains
from tiny_bert import write_architecture

from bert_tf.pretraining import batches, damaged_records, record_checks
from bert_tf.training.lifecycle.error_messages import READ_ERRORS

GOOD = record()
FILES = {
    "good": frames(GOOD, GOOD, GOOD, GOOD),
    "long.gz": frames(GOOD, GOOD) + header(1 << 62) + bytes(1000),
    "cut": frames(GOOD, GOOD)[:-5],
    "text": b"This is a text and not a file of records.\n",
    "empty": b"",
    "no_example": frames(b"\xff\xff"),
    "other_length": frames(
        record(input_ids=[2, 3], input_mask=[1, 1], segment_ids=[0, 0])
    ),
    "no_mask": frames(record(input_mask=None)),
    "floats": frames(record(input_ids=[float(i) for i in VALUES["input_ids"]])),
    "large_id": frames(with_value("input_ids", (1 << 32) + 5)),
    "large_position": frames(with_value("masked_lm_positions", (1 << 32) + 1)),
    "segment": frames(with_value("segment_ids", 2)),
    "weight": frames(with_value("masked_lm_weights", float("nan"))),
    **{
        f"late_{name}": frames(*[GOOD] * 40, bad)
        for name, bad in {
            "label": with_value("next_sentence_labels", (1 << 32) + 1),
            "weight": with_value("masked_lm_weights", float("inf")),
            "floats": record(input_ids=[float(i) for i in VALUES["input_ids"]]),
        }.items()
    },
}

# A row: the record files, and words of the message of the function that checks them.
FILE_ROWS = [
    ("text", ["text is not a TFRecord file"]),
    ("empty", ["empty holds no record"]),
    ("folder", ["folder is a folder", "Give the record files in it"]),
    ("nowhere", ["No record file matches", "nowhere"]),
    ("no_example", ["no_example", "not a tf.train.Example"]),
    ("other_length", ["input_ids of length 2, but length 8 is expected"]),
    ("no_mask", ["no_mask has no feature input_mask"]),
    ("floats", ["floats cannot be parsed", "input_ids"]),
    ("large_id", ["holds 4294967301 in input_ids", "vocab_size is 9"]),
    ("large_position", ["holds 4294967297 in masked_lm_positions"]),
    ("segment", ["holds 2 in segment_ids", "type_vocab_size is 2"]),
    ("weight", ["holds nan in masked_lm_weights, but a number from 0 to 1"]),
]
P, I = "run_scripts.run_pretraining", "data_prep.inspect_records"  # noqa: E741
# A row: the program, the flags that differ from a valid command, and words of the
# message. Most of these flags are refused before TensorFlow is imported.
PROGRAM_ROWS = [
    (
        P,
        {"input_file": "text", "skip_bad_records": True},
        ["holds no record that can be"],
    ),
    (I, {"vocab_file": "folder"}, ["folder"]),
    (I, {"num_examples": -1}, ["--num_examples=-1", "non-negative"]),
    (
        P,
        {"max_predictions_per_seq": 0},
        ["--max_predictions_per_seq must be at least 1"],
    ),
    (P, {"learning_rate": "nan"}, ["learning_rate must be above 0. Received: nan"]),
    (
        P,
        {"num_train_steps": 200, "num_warmup_steps": 201},
        ["from 0 to --num_train_steps (200)"],
    ),
    # The default of --num_warmup_steps follows the steps.
    (
        P,
        {"num_train_steps": 200, "input_file": "text"},
        ["text is not a TFRecord file"],
    ),
    (P, {"bert_config_file": "folder"}, ["folder is a folder; give a file"]),
    (P, {"bert_config_file": "tiny"}, ["bert_config_file=tiny needs --vocab_file"]),
    (P, {"bert_config_file": "huge"}, ["There is no file huge", "sizes tiny, mini"]),
    (P, {"init_checkpoint": "folder"}, ["holds no checkpoint"]),
]
# A row: a record file, and words of the message after an error in the input pipeline.
PIPELINE_ROWS = [
    ("long.gz", ["Record 2 of", "truncated", "skip_bad_records=true"]),
    ("cut", ["Record 1 of", "truncated", "skip_bad_records=true"]),
    ("late_label", ["Record 40 of", "holds 4294967297 in next_sentence_labels"]),
    ("late_weight", ["Record 40 of", "holds inf in masked_lm_weights"]),
    ("late_floats", ["Record 40 of", "input_ids"]),
]
_PATHS = (
    "input_file", "eval_input_file", "output_dir", "bert_config_file", "vocab_file",
    "init_checkpoint",
)  # fmt: skip
_DEFAULTS = {
    P: {
        "input_file": "good", "output_dir": "out", "bert_config_file": "config.json",
        "max_seq_length": 8, "max_predictions_per_seq": 2, "do_train": True,
    },
    I: {"input_file": "good", "vocab_file": "vocab.txt"},
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    for name, content in FILES.items():
        write(folder / name, content)
    write_architecture(folder)
    (folder / "folder").mkdir()
    return folder


_SIZES = "tiny", "huge"


def command(folder, program, changes):
    def value_of(name, value):
        return folder / value if name in _PATHS and value not in _SIZES else value

    values = {**_DEFAULTS[program], **changes}
    return f"bert_tf.{program}", [
        f"--{name}={value_of(name, value)}" for name, value in values.items()
    ]


@pytest.mark.parametrize(("name", "words"), FILE_ROWS)
def test_record_files_are_refused_before_training(folder, name, words):
    with refused_with(*words):
        record_checks.check_files(record_checks.record_files(f"{folder}/{name}"), SIZES)


@pytest.mark.parametrize(("name", "words"), PIPELINE_ROWS)
def test_a_bad_record_stops_the_input_pipeline_and_is_named(folder, name, words):
    paths = [str(folder / "good"), str(folder / name)]
    with pytest.raises(READ_ERRORS):
        for _ in batches.training_batches(paths, SIZES, 4, 1, 10).take(50):
            pass
    message = damaged_records.explain_read_error(paths, SIZES)
    assert all(word in message for word in words), message


def test_bad_input_is_refused_in_one_line(folder):
    results = run_mains(
        [command(folder, *row[:2]) for row in PROGRAM_ROWS], cwd=folder, secs=60
    )
    for result, (_, _, words) in zip(results, PROGRAM_ROWS, strict=True):
        assert_refused(result, *words)
    assert not (folder / "out").exists()
