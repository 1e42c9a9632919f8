"""Records of --masking=dynamic: content, the masks of a run, and what is refused."""

import iterator_positions as positions
import numpy as np
import pytest
import tensorflow as tf
import tiny_bert
import tiny_corpus
from golden_checkpoints import assert_same_arrays
from json_files import read_json, write_json
from refusals import refused
from run_programs import assert_each_refused, run_lines, run_well

from bert_tf import record_format
from bert_tf.masking.dynamic_masks import DynamicMasks
from bert_tf.masking.masking_config import MaskingConfig
from bert_tf.pretraining import record_checks
from bert_tf.pretraining.batches import evaluation_batches, training_batches
from bert_tf.record_creation.records_config import RecordsConfig
from bert_tf.record_creation.statistical_tests import DistributionCheck
from bert_tf.record_jobs import inspection, stages

LENGTH, PREDICTIONS = 40, 6
SIZES = {"S": LENGTH, "P": PREDICTIONS, "V": len(tiny_corpus.VOCABULARY), "T": 2}
TEXT = tiny_corpus.text_of(tiny_corpus.corpus(60))
# The names of the settings and whether the records are pairs.
KINDS = {
    "tokens": {},
    "words": {"do_whole_word_mask": True},
    "ngrams": {
        "do_whole_word_mask": True,
        "max_ngram_size": 3,
        "replace_whole_words": True,
    },
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dynamic")
    vocab_file = tiny_corpus.vocabulary_file(folder)
    settings = {"max_seq_length": LENGTH, "dupe_factor": 2, "num_output_shards": 2}
    for objective in ("mlm_nsp", "mlm"):
        for masking, most in (("static", PREDICTIONS), ("dynamic", 20)):
            tiny_corpus.make(
                folder,
                vocab_file,
                TEXT,
                f"{objective}/{masking}.tfrecord",
                masking=masking,
                max_predictions_per_seq=most,
                objective=objective,
                **settings,
            )
    return folder


def files(folder, masking="dynamic", objective="mlm_nsp"):
    return sorted(map(str, (folder / objective).glob(f"{masking}-*")))


def masks(folder, kind="tokens"):
    settings = MaskingConfig(max_predictions_per_seq=PREDICTIONS, **KINDS[kind])
    return DynamicMasks(settings, stages.vocabulary(records_config(folder)))


def records_config(folder, **settings):
    vocab_file = str(folder / "vocab.txt")
    return RecordsConfig(vocab_file, max_predictions_per_seq=PREDICTIONS, **settings)


def joined(dataset):
    """Returns the columns of all batches, as arrays."""
    return positions.columns(iter(dataset))


@pytest.mark.parametrize("objective", ["mlm_nsp", "mlm"])
def test_an_unmasked_record_has_the_tokens_and_labels_of_the_static_one(
    folder, objective
):
    static = tiny_corpus.parsed(files(folder, "static", objective), LENGTH, PREDICTIONS)
    paths = files(folder, "dynamic", objective)
    records = list(tf.data.TFRecordDataset(paths).as_numpy_iterator())
    expected_ids = tiny_corpus.unmasked(static)
    assert len(records) == len(expected_ids) > 100
    for number, record in enumerate(records):
        found = tf.train.Example.FromString(record).features.feature
        (packed,) = found["ids_uint16"].bytes_list.value
        ids = np.frombuffer(packed, "<u2")
        assert ids[-1] == tiny_corpus.SEP
        assert ids.tolist() == expected_ids[number][: len(ids)].tolist()
        assert len(ids) == static["input_mask"][number].sum()
        length_a, length_b = found["lengths"].int64_list.value
        in_b = static["segment_ids"][number].sum()
        assert length_b + (objective == "mlm_nsp") == in_b
        assert length_a + 2 + in_b == len(ids)
        label = static["next_sentence_labels"][number].tolist()
        assert found["next_sentence_labels"].int64_list.value == label


def test_unmasked_records_take_less_space_than_the_text(folder, test_data, tmp_path):
    text = (test_data / "data/corpora/books.txt").read_bytes()[:300_000]
    vocab_file = str(test_data / "data/vocab/bert-base-uncased-vocab.txt")
    _, (path,) = tiny_corpus.make(
        tmp_path, vocab_file, text, masking="dynamic", dupe_factor=1
    )
    assert tf.io.gfile.stat(path).length < len(text)


def test_ids_of_a_large_vocabulary_are_packed_into_32_bits():
    (ids, *_), (small, *_) = (
        record_format.unmasked((1 << 16) + 1),
        record_format.unmasked(1 << 16),
    )
    assert (ids.name, small.name) == ("ids_int32", "ids_uint16")
    values = np.array([[65536, 0, 7, 0], [1, 2, 3, 4]])
    records = record_format.encode({ids.name: values}, [ids])
    parse = record_format.parser([ids], {"S": 4}, keep_int64=True)
    assert parse(records)[ids.name].numpy().tolist() == values.tolist()
    packed = tf.train.Example.FromString(records[0]).features.feature[ids.name]
    assert packed.bytes_list.value == [np.array([65536, 0, 7], "<i4").tobytes()]


@pytest.mark.parametrize("kind", KINDS)
def test_the_masks_of_training_are_distributed_as_those_of_static_records(folder, kind):
    data = training_batches(files(folder), SIZES, 16, 5, 100, masks(folder, kind))
    columns = joined(data.take(500))
    del columns["origin"]
    config = records_config(folder, **KINDS[kind])
    check = DistributionCheck(config, stages.vocabulary(config), columns)
    check.add(columns)
    found = [c.name for c in check.comparisons() if not c.as_expected]
    # Each record is read several times, and the truncation to 40 tokens is large.
    assert all(name.startswith(("records of", "sequences")) for name in found), found
    if kind == "tokens":
        expected = np.rint(columns["input_mask"].sum(axis=1) * 0.15).clip(1, 6)
        np.testing.assert_array_equal(
            columns["masked_lm_weights"].sum(axis=1), expected
        )


def test_inspection_masks_unmasked_records(folder, capsys):
    config = records_config(folder, max_seq_length=LENGTH)
    inspection.inspect(config, str(folder / "mlm_nsp/dynamic-*"), 1)
    printed = capsys.readouterr().out
    assert "[MASK=" in printed and "BROKEN" not in printed
    assert "  as expected: [MASK] at a prediction: " in printed


def test_masks_depend_on_the_place_in_the_stream_and_not_on_the_batch_size(folder):
    def stream(batch_size):
        data = training_batches(files(folder), SIZES, batch_size, 1, 50, masks(folder))
        return joined(data.take(1200 // batch_size))

    assert_same_arrays(stream(8), stream(3))


def test_masks_differ_in_each_epoch_but_not_in_evaluations(folder):
    count = len(list(tf.data.TFRecordDataset(files(folder))))
    data = training_batches(files(folder), SIZES, 1, 1, 50, masks(folder))
    columns = joined(data.take(2 * count))
    by_record = {}
    for number, origin in enumerate(map(tuple, columns["origin"])):
        by_record.setdefault(origin, []).append(number)
    assert len(by_record) == count and set(map(len, by_record.values())) == {2}
    pairs = np.array(list(by_record.values())).T
    ids = tiny_corpus.unmasked(columns)
    np.testing.assert_array_equal(ids[pairs[0]], ids[pairs[1]])
    masked = columns["masked_lm_positions"]
    same = (masked[pairs[0]] == masked[pairs[1]]).all(axis=1)
    assert same.mean() < 0.2
    one, two = (
        joined(evaluation_batches(files(folder), SIZES, n, masks(folder)))
        for n in (7, 64)
    )
    assert_same_arrays(two, one)


@pytest.mark.parametrize("at", [0, 5, 40])
def test_the_position_is_restored_exactly(folder, tmp_path, at):
    def batches():
        return training_batches(files(folder), SIZES, 12, 1, 50, masks(folder, "words"))

    iterator = iter(batches())
    for _ in range(at):
        next(iterator)
    saved = positions.save(iterator, tmp_path / "position")
    expected = positions.columns(iterator, 40)
    resumed = positions.restore(batches(), saved)
    assert_same_arrays(positions.columns(resumed, 40), expected)


def test_an_unmasked_record_that_does_not_fit_is_named(folder):
    path = files(folder)[0]
    for sizes, words in (
        ({"S": 30}, "dynamic-.* in lengths, but max_seq_length is 30"),
        ({"V": 20}, r"holds \d+ in ids_uint16, but vocab_size is 20"),
        ({"V": 1 << 17}, "has no feature ids_int32"),
    ):
        with refused(words):
            record_checks.check_files([path], {**SIZES, **sizes})


PRETRAIN = "bert_tf.run_scripts.run_pretraining"
CREATE = "bert_tf.data_prep.create_pretraining_data"


@pytest.fixture
def training(folder):
    """The flags of a run, without its records and its vocabulary."""
    sizes = {
        "vocab_size": len(tiny_corpus.VOCABULARY),
        "max_position_embeddings": LENGTH,
    }
    write_json(folder / "config.json", {**tiny_bert.CONFIG, **sizes})
    return (
        f"--bert_config_file={folder}/config.json --do_train --num_train_steps=6 "
        f"--train_batch_size=8 --output_dir={folder}/run"
    )


@pytest.mark.medium
def test_a_run_trains_on_unmasked_records_and_evaluates(folder, training):
    command = (
        f"{training} --input_file={folder}/mlm_nsp/dynamic-* "
        f"--vocab_file={folder}/vocab.txt --max_predictions_per_seq=5"
    )
    (result,) = run_well(PRETRAIN, f"{command} --do_eval --do_whole_word_mask")
    assert "warning: --max_predictions_per_seq=5 masks 12.5% of 40 tokens" in result.err
    settings = read_json(folder / "run/training_config.json")
    assert settings["data"]["masking"]["do_whole_word_mask"] is True
    (changed,) = run_lines(PRETRAIN, command)
    assert changed.code == 2
    message = "a run with masking.do_whole_word_mask=True, but this"
    assert message in changed.messages[-1]


def test_bad_input_is_refused_in_one_line(folder, tmp_path, training):
    vocab = f"--vocab_file={folder}/vocab.txt"
    dynamic, static = (
        f"--input_file={folder}/mlm_nsp/{kind}-*" for kind in ("dynamic", "static")
    )
    of_both = static.replace("--input_file=", ",")
    assert_each_refused(
        PRETRAIN,
        f"{training} --output_dir={tmp_path}/run",
        [
            (dynamic, "unmasked", "need --vocab_file"),
            (f"{dynamic}{of_both} {vocab}", "one kind"),
            (f"{dynamic} {static.replace('--', '--eval_')} {vocab}", "one kind"),
            (
                f"{dynamic} {vocab} --objective=causal",
                "created with --objective=mlm_nsp, but this run has --objective=causal",
            ),
            (
                f"{static} {vocab} --do_whole_word_mask",
                "--do_whole_word_mask has no effect without records of "
                "--masking=dynamic",
            ),
            (f"{dynamic} {vocab} --mask_token_prob=2", "mask_token_prob"),
        ],
    )
    assert_each_refused(
        CREATE,
        f"--input_file={folder}/corpus.txt {vocab} --masking=dynamic "
        f"--output_file={tmp_path}/a.tfrecord",
        [
            (
                "--max_predictions_per_seq=10",
                "--max_predictions_per_seq has no effect",
                "run_pretraining",
            ),
            ("--objective=causal", "--masking has no effect", "causal"),
        ],
    )
    assert list(tmp_path.iterdir()) == []
