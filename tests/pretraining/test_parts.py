"""Batches that are divided among workers: the rows of each part, and positions."""

import signal

import iterator_positions as positions
import layout_runs
import linear_runs
import numpy as np
import pytest
import tiny_corpus
from golden_checkpoints import assert_close_arrays, assert_same_arrays
from json_files import read_json

from bert_tf import record_format
from bert_tf.masking.dynamic_masks import DynamicMasks
from bert_tf.masking.masking_config import MaskingConfig
from bert_tf.pretraining.batches import training_batches
from bert_tf.record_creation.records_config import RecordsConfig
from bert_tf.record_jobs import stages
from bert_tf.training.trainer import TrainingData

LENGTH, PREDICTIONS, BATCH = 40, 6, 8
SIZES = {"S": LENGTH, "P": PREDICTIONS, "V": len(tiny_corpus.VOCABULARY), "T": 2}


@pytest.fixture(scope="module", params=["static", "dynamic"])
def make_batches(request, tmp_path_factory):
    """Returns a function from a part to its dataset, for both kinds of records."""
    folder = tmp_path_factory.mktemp("parts")
    vocab_file = tiny_corpus.vocabulary_file(folder)
    text = tiny_corpus.text_of(tiny_corpus.corpus(20))
    is_static = request.param == "static"
    tiny_corpus.make(
        folder,
        vocab_file,
        text,
        "records.tfrecord",
        masking=request.param,
        dupe_factor=1,
        max_seq_length=LENGTH,
        max_predictions_per_seq=PREDICTIONS if is_static else 20,
        num_output_shards=2,
    )
    paths = sorted(map(str, folder.glob("records-*")))
    settings = MaskingConfig(max_predictions_per_seq=PREDICTIONS)
    vocabulary = stages.vocabulary(RecordsConfig(vocab_file))
    masks = None if is_static else DynamicMasks(settings, vocabulary)
    return lambda part: training_batches(paths, SIZES, BATCH, 1, 30, masks, part)


def arrays(iterator, count):
    """Returns the columns of the next batches; each has the shape [count, B, ...]."""
    return positions.columns(iterator, count, np.stack)


def rows_of(columns, number, parts):
    """Returns the columns of a part, row by row."""
    rows = [row for row in range(BATCH) if row // (BATCH // parts) == number]
    return {name: values[:, rows] for name, values in columns.items()}


@pytest.mark.parametrize("parts", [1, 2, pytest.param(4, marks=pytest.mark.medium)])
def test_the_parts_of_a_batch_are_together_the_batch(make_batches, parts):
    whole = arrays(iter(make_batches(None)), 60)  # several epochs
    for number in range(parts):
        dataset = make_batches((number, parts))
        assert dataset.element_spec["input_ids"].shape == [BATCH // parts, LENGTH]
        assert_same_arrays(arrays(iter(dataset), 60), rows_of(whole, number, parts))


@pytest.mark.parametrize(
    ("saved_in", "at"),
    [
        ((0, 2), 0),
        *(
            pytest.param(*case, marks=pytest.mark.medium)
            for case in [((0, 4), 5), ((0, 1), 37)]
        ),
    ],
)
def test_a_position_in_one_part_is_restored_in_any_part(
    make_batches, tmp_path, saved_in, at
):
    whole = arrays(iter(make_batches(None)), at + 30)
    rest = {name: values[at:] for name, values in whole.items()}
    iterator = iter(make_batches(saved_in))
    if at:
        arrays(iterator, at)
    saved = positions.save(iterator, tmp_path / "position")
    # Each but the first resumes a resumed run.
    for part in ((0, 1), (1, 2), (0, 2), (3, 4)):
        resumed = positions.restore(make_batches(part), saved)
        first = arrays(resumed, 2)
        saved = positions.save(resumed, tmp_path / f"position-{part}")
        both = zip(first.items(), arrays(resumed, 20).values(), strict=True)
        found = {
            name: np.concatenate([before, after]) for (name, before), after in both
        }
        assert_same_arrays(found, rows_of({n: v[:22] for n, v in rest.items()}, *part))
        rest = {name: values[2:] for name, values in rest.items()}


def test_a_run_reads_parts_if_its_checkpoint_has_their_position(tmp_path):
    for is_part, expected in ((False, None), (True, (0, 1))):
        folder = tmp_path / str(is_part)
        first = linear_runs.make_trainer(folder)
        assert first.part_of_batch() is None  # a new run of one process
        first.train(TrainingData(linear_runs.data(), is_part=is_part))
        assert linear_runs.make_trainer(folder).part_of_batch() == expected
    (newest,) = (tmp_path / "False/checkpoints").glob("step-*20")
    settings = read_json(newest / "runtime_config.json")
    assert settings["replicas"] == 1 and settings["reads_parts"] is False


@pytest.mark.slow
def test_runs_with_parts_resume_on_other_numbers_of_workers(tmp_path):
    examples = record_format.encode(layout_runs.columns(), record_format.PRETRAINING)
    records = tiny_corpus.write_records(tmp_path / "records", examples)
    workers = {
        number: {"kind": "multi_worker_mirrored", "workers": number, "records": records}
        for number in (2, 4)
    }
    one = {"records": records}
    two_devices = {**workers[2], "devices": 2, "accumulation": 2}
    stop = {"stop_at": 8}
    runs = {
        "one": [one], "2": [workers[2]], "4": [workers[4]], "devices": [two_devices],
        "2-2": [{**workers[2], **stop}, workers[2]],
        "2-1": [{**workers[2], **stop}, one],
        "4-2": [{**workers[4], **stop}, two_devices],
        "1-2": [{**one, **stop}, workers[2]],
    }  # fmt: skip
    specs = [
        {**spec, "folder": tmp_path / name} for name in runs for spec in runs[name]
    ]
    codes = layout_runs.start(specs)
    for spec, code in zip(specs, codes, strict=True):
        expected = 128 + signal.SIGTERM if "stop_at" in spec else 0
        assert code == [expected] * spec.get("workers", 1), (spec, code)
    expected = layout_runs.weights(tmp_path / "one")
    for name in runs:
        assert_close_arrays(layout_runs.weights(tmp_path / name), expected, 2e-5)
        (newest,) = (tmp_path / name / "checkpoints").glob("step-*20")
        settings = read_json(newest / "runtime_config.json")
        assert settings["reads_parts"] == (name not in ("one", "1-2"))
