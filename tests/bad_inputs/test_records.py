"""Hostile record files and flags of run_pretraining and inspect_records: one line, exit code 2.

The files of the rows are in the folder of the fixture `folder`.
"""

import gzip
import json
import os

import pytest
from hostile_records import SIZES, VALUES, frames, header, record, with_value, write
from run_programs import assert_refused, run_mains

from bert_tf.data_prep.pretraining_data.settings import RecordsConfig
from bert_tf.data_prep.runners import inspection
from bert_tf.errors import InputError
from bert_tf.pretraining import batches, read_errors, record_checks

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##c", "."]
CONFIG = {
    "vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 8, "max_position_embeddings": 16, "type_vocab_size": 2,
}  # fmt: skip
GOOD = record()
FILES = {
    "good": frames(GOOD, GOOD, GOOD, GOOD),
    "long_by_one": frames(GOOD) + header(len(GOOD) + 1) + GOOD + bytes(4),
    "long.gz": frames(GOOD, GOOD) + header(1 << 62) + bytes(1000),
    "cut": frames(GOOD, GOOD)[:-5],
    "text": b"This is a text and not a file of records.\n",
    "empty": b"",
    "empty.gz": b"",
    "no_gzip.gz": b"",  # replaced by the fixture
    "cut.gz": b"",
    "no_example": frames(b"\xff\xff"),
    "empty_record": frames(b""),
    "other_length": frames(record(input_ids=[2, 3], input_mask=[1, 1], segment_ids=[0, 0])),
    "no_mask": frames(record(input_mask=None)),
    "floats": frames(record(input_ids=[float(i) for i in VALUES["input_ids"]])),
    "integers": frames(record(masked_lm_weights=[1, 1])),
    "bytes": frames(record(input_ids=[b"2"])),
    "large_id": frames(with_value("input_ids", (1 << 32) + 5)),
    "large_label": frames(with_value("masked_lm_ids", (1 << 32) + 5)),
    "large_position": frames(with_value("masked_lm_positions", (1 << 32) + 1)),
    "negative_id": frames(with_value("input_ids", -1)),
    "segment": frames(with_value("segment_ids", 2)),
    "mask": frames(with_value("input_mask", 7)),
    "next_sentence": frames(with_value("next_sentence_labels", 2)),
    "weight": frames(with_value("masked_lm_weights", float("nan"))),
    **{
        f"late_{name}": frames(*[GOOD] * 40, bad)
        for name, bad in {
            "label": with_value("next_sentence_labels", (1 << 32) + 1),
            "id": with_value("input_ids", (1 << 32) + 5),
            "segment": with_value("segment_ids", 1 << 32),
            "mask": with_value("input_mask", 2),
            "weight": with_value("masked_lm_weights", float("inf")),
            "position": with_value("masked_lm_positions", 1 - (1 << 32)),
            "floats": record(input_ids=[float(i) for i in VALUES["input_ids"]]),
        }.items()
    },
}

# A row: the record files, and words of the message of the function that checks them.
FILE_ROWS = [
    ("text", ["text is not a TFRecord file"]),
    ("empty", ["empty is empty"]),
    ("empty.gz", ["empty.gz holds no record"]),
    ("no_gzip.gz", ["no_gzip.gz is not a TFRecord file"]),
    ("cut.gz", ["cut.gz"]),
    ("folder", ["folder is a folder", "Give the record files in it"]),
    ("fifo", ["fifo is a pipe or a device"]),
    ("nowhere", ["No record file matches", "nowhere"]),
    ("no_example", ["no_example", "not a tf.train.Example"]),
    ("empty_record", ["empty_record has no feature input_ids"]),
    ("other_length", ["input_ids of length 2, but length 8 is expected"]),
    ("no_mask", ["no_mask has no feature input_mask"]),
    ("floats", ["floats cannot be parsed", "input_ids"]),
    ("integers", ["integers cannot be parsed", "masked_lm_weights"]),
    ("bytes", ["input_ids of length 0"]),
    ("large_id", ["holds 4294967301 in input_ids", "vocab_size is 9"]),
    ("large_label", ["holds 4294967301 in masked_lm_ids"]),
    ("large_position", ["holds 4294967297 in masked_lm_positions"]),
    ("negative_id", ["holds -1 in input_ids"]),
    ("segment", ["holds 2 in segment_ids", "type_vocab_size is 2"]),
    ("mask", ["holds 7 in input_mask, but 0 or 1 is expected"]),
    ("next_sentence", ["holds 2 in next_sentence_labels, but 0 or 1"]),
    ("weight", ["holds nan in masked_lm_weights, but a number from 0 to 1"]),
]
# A row: the record files, and words of the message or of the report of an inspection.
INSPECTION_ROWS = [
    ("long.gz", ["record 2", "truncated"]),
    ("cut", ["cannot be read from this record on", "record 1"]),
    ("text", ["No record of"]),
    ("empty", ["the files hold no record"]),
    ("cut.gz", ["cannot be read from this record on"]),
    ("folder", ["folder is a folder"]),
    ("nowhere", ["No record file matches"]),
    ("no_example", ["not a tf.train.Example"]),
    ("floats", ["the features or their lengths differ"]),
    ("large_id", ["an id in input_ids is outside the vocabulary, 1 found"]),
    ("large_label", ["an id in masked_lm_ids is outside the vocabulary, 1 found"]),
    ("large_position", ["masked_lm_positions hold a position outside the text, 1 found"]),
    ("next_sentence", ["next_sentence_labels is not 0 or 1, 1 found"]),
    ("late_label", ["next_sentence_labels is not 0 or 1, 1 found", "record 40"]),
    ("mask", ["input_mask is not ones, then zeros, 1 found"]),
    ("weight", ["masked_lm_weights hold a number other than 0 and 1, 1 found"]),
]
P, I = "run_scripts.run_pretraining", "data_prep.inspect_records"  # noqa: E741
# A row: the program, the flags that differ from a valid command, and words of the message. Most of
# these flags are refused before TensorFlow is imported.
PROGRAM_ROWS = [
    (P, {"input_file": "text", "skip_bad_records": True}, ["holds no record that can be"]),
    (P, {"input_file": "fifo"}, ["fifo is a pipe or a device"]),
    (I, {"vocab_file": "folder"}, ["folder"]),
    (I, {"num_examples": -1}, ["--num_examples=-1", "non-negative"]),
    (P, {"max_seq_length": 0}, ["--max_seq_length must be at least 1. Received: 0"]),
    (P, {"max_predictions_per_seq": 0}, ["--max_predictions_per_seq must be at least 1"]),
    (P, {"train_batch_size": 0}, ["--train_batch_size must be at least 1"]),
    (P, {"learning_rate": "nan"}, ["learning_rate must be above 0. Received: nan"]),
    (P, {"num_train_steps": 0}, ["--num_train_steps must be at least 1"]),
    (P, {"num_train_steps": 200, "num_warmup_steps": 201}, ["from 0 to --num_train_steps (200)"]),
    # The default of --num_warmup_steps follows the steps.
    (P, {"num_train_steps": 200, "input_file": "text"}, ["text is not a TFRecord file"]),
    (P, {"bert_config_file": "folder"}, ["folder is a folder; give a file"]),
    (P, {"bert_config_file": "tiny"}, ["bert_config_file=tiny needs --vocab_file"]),
    (P, {"bert_config_file": "huge"}, ["There is no file huge", "sizes tiny, mini"]),
    (P, {"vocab_file": "folder"}, ["folder is a folder"]),
    (P, {"init_checkpoint": "folder"}, ["holds no checkpoint"]),
]
# A row: a record file, and words of the message after an error in the input pipeline.
PIPELINE_ROWS = [
    ("long.gz", ["Record 2 of", "truncated", "skip_bad_records=true"]),
    ("cut", ["Record 1 of", "truncated", "skip_bad_records=true"]),
    ("long_by_one", ["Record 1 of", "truncated", "skip_bad_records=true"]),
    ("late_label", ["Record 40 of", "holds 4294967297 in next_sentence_labels"]),
    ("late_id", ["Record 40 of", "holds 4294967301 in input_ids"]),
    ("late_segment", ["Record 40 of", "holds 4294967296 in segment_ids"]),
    ("late_mask", ["Record 40 of", "holds 2 in input_mask"]),
    ("late_weight", ["Record 40 of", "holds inf in masked_lm_weights"]),
    ("late_position", ["Record 40 of", "holds -4294967295 in masked_lm_positions"]),
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
    (folder / "no_gzip.gz").write_bytes(b"This is a text and not a gzip file.\n")
    (folder / "cut.gz").write_bytes(gzip.compress(FILES["good"])[:40])
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "folder").mkdir()
    os.mkfifo(folder / "fifo")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "loop").symlink_to("loop")
    return folder


def paths_in(folder, names):
    parts = names.split(",")
    return ",".join(part if "/" in part or not part else f"{folder}/{part}" for part in parts)


_SIZES = "tiny", "huge"


def command(folder, program, changes):
    values = {**_DEFAULTS[program], **changes}
    return f"bert_tf.{program}", [
        f"--{name}={paths_in(folder, value) if name in _PATHS and value not in _SIZES else value}"
        for name, value in values.items()
    ]


@pytest.mark.parametrize(("names", "words"), FILE_ROWS)
def test_record_files_are_refused_before_training(folder, names, words):
    with pytest.raises(InputError) as raised:
        record_checks.check_files(record_checks.record_files(paths_in(folder, names)), SIZES)
    assert all(word in str(raised.value) for word in words), raised.value


@pytest.mark.parametrize(("names", "words"), INSPECTION_ROWS)
def test_record_files_are_inspected(folder, capsys, names, words):
    try:
        config = RecordsConfig(str(folder / "vocab.txt"))
        assert not inspection.inspect(config, paths_in(folder, names), 1)
        said = capsys.readouterr().out
    except InputError as error:
        said = str(error)
    assert all(word in said for word in words), said


@pytest.mark.parametrize(("name", "words"), PIPELINE_ROWS)
def test_a_bad_record_stops_the_input_pipeline_and_is_named(folder, name, words):
    paths = [str(folder / "good"), str(folder / name)]
    with pytest.raises(read_errors.READ_ERRORS) as raised:
        for _ in batches.training_batches(paths, SIZES, 4, 1, 10).take(50):
            pass
    message = read_errors.explain_read_error(paths, SIZES, raised.value)
    assert all(word in message for word in words), message


@pytest.fixture(scope="module")
def results(folder):
    return run_mains([command(folder, *row[:2]) for row in PROGRAM_ROWS], cwd=folder, secs=60)


@pytest.mark.parametrize("number", range(len(PROGRAM_ROWS)))
def test_bad_input_is_refused_in_one_line(results, number):
    assert_refused(results[number], *PROGRAM_ROWS[number][2])


def test_nothing_is_written_after_bad_input(results, folder):
    assert len(results) == len(PROGRAM_ROWS)
    assert not (folder / "out").exists()
