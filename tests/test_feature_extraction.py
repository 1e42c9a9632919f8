"""Feature extraction: tokens and vectors of lines, and the output formats."""

import gzip
import json

import numpy as np
import pytest
import tensorflow as tf
from refusals import refused
from run_programs import run_mains
from tiny_bert import SPECIAL, small_config

from bert_tf.feature_extraction import feature_files
from bert_tf.feature_extraction.extraction_config import ExtractionConfig
from bert_tf.feature_extraction.extractor import FeatureExtractor
from bert_tf.modeling import BertEncoder
from bert_tf.pretrained import save_checkpoint
from bert_tf.tokenization import BertTokenizer

VOCABULARY = [*SPECIAL, "new", "york", "play", "##ing", "##s"]
SIZES = {"num_hidden_layers": 3, "max_position_embeddings": 12}
CONFIG = small_config(len(VOCABULARY), initializer_range=0.5, **SIZES)
LINES = ["New York plays", "playing ||| new playings", "", "york " * 30]
# The at most 12 ids of each line; [CLS] is 2 and [SEP] is 3. A second text has segment
# id 1.
IDS = [[2, 5, 6, 7, 9, 3], [2, 7, 8, 3, 5, 7, 8, 9, 3], [2, 3], [2, *[6] * 10, 3]]
SEGMENTS = [[0] * 6, [0, 0, 0, 0, 1, 1, 1, 1, 1], [0, 0], [0] * 12]


@pytest.fixture(scope="module")
def encoder():
    return BertEncoder(CONFIG, seed=0)


@pytest.fixture(scope="module")
def expected(encoder):
    """Returns each line's hidden states [L + 1, T, H], computed without padding."""
    hidden_states = []
    for ids, segments in zip(IDS, SEGMENTS, strict=True):
        outputs = encoder(
            {"input_ids": tf.constant([ids]), "segment_ids": tf.constant([segments])}
        )
        states = [outputs["embedding_output"], *outputs["encoder_outputs"]]
        hidden_states.append(np.stack([np.asarray(state)[0] for state in states]))
    return hidden_states


def extract(encoder, lines=LINES, max_seq_length=12, **settings):
    config = ExtractionConfig(max_seq_length=max_seq_length, batch_size=3, **settings)
    return list(FeatureExtractor(encoder, BertTokenizer(VOCABULARY), config)(lines))


def test_tokens_and_vectors_of_the_given_layers(encoder, expected):
    features = extract(encoder, layers=(-1, 0, -4))
    for line, states, ids in zip(features, expected, IDS, strict=True):
        assert line.tokens == [VOCABULARY[i] for i in ids]
        np.testing.assert_allclose(line.values, states[[3, 1, 0]], atol=1e-5)


def test_the_number_of_truncated_lines_is_reported(encoder, caplog):
    extract(encoder, layers=(-1,))  # of LINES, one has more than 12 tokens
    assert "warning: 1 lines have more than 12 tokens" in caplog.text
    assert caplog.text.count("warning") == 1
    caplog.clear()
    fitting = ["york " * 10, f"{'york ' * 4}||| {'new ' * 5}"]  # 12 tokens each
    extract(encoder, fitting)
    assert not caplog.text
    extract(encoder, [f"york {line}" for line in fitting])
    assert "warning: 2 lines" in caplog.text


@pytest.mark.parametrize(
    ("combine", "combined"),
    [("sum", np.add), ("concat", lambda *states: np.concatenate(states, axis=-1))],
)
def test_sum_and_concatenation_of_layers(encoder, expected, combine, combined):
    features = extract(encoder, layers=(-1, -2), combine=combine)
    for line, states in zip(features, expected, strict=True):
        values = combined(states[3], states[2])[None]
        np.testing.assert_allclose(line.values, values, atol=1e-5)


def test_features_that_are_not_finite_are_refused():
    encoder = BertEncoder(CONFIG, seed=0)
    kernel = next(each for each in encoder.weights if each.path.endswith("kernel"))
    kernel.assign(np.full(kernel.shape, 3e38, np.float32))
    with refused(r"The features of 'New York plays' .* are not finite"):
        extract(encoder, layers=(-1,))


def test_vectors_of_words_are_the_mean_over_their_tokens(encoder, expected):
    line = extract(encoder, layers=(-1,), unit="word")[1]
    assert line.tokens == ["[CLS]", "playing", "[SEP]", "new", "playings", "[SEP]"]
    last = expected[1][3]
    for word, tokens in ((1, slice(1, 3)), (4, slice(5, 8)), (5, slice(8, 9))):
        mean = last[tokens].mean(axis=0)
        np.testing.assert_allclose(line.values[0, word], mean, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layers": (-5,)}, "no layer -5 .* from -3 to 2, or -4 for the embeddings"),
        ({"max_seq_length": 13}, "exceeds the model's max_position_embeddings"),
    ],
)
def test_invalid_settings_are_refused(encoder, settings, message):
    with refused(message):
        extract(encoder, **settings)


def test_npz_and_tfrecord_shards_hold_all_lines(encoder, expected, tmp_path):
    config = ExtractionConfig(layers=(-1,), max_seq_length=12)
    features = extract(encoder, layers=(-1,))
    path = str(tmp_path / "f")
    assert feature_files.write(path, features, config, "npz", "float16", 3) == 4
    first, second = np.load(f"{path}-00000.npz"), np.load(f"{path}-00001.npz")
    assert first["values"].dtype == np.float16
    np.testing.assert_array_equal(first["line_splits"], [0, 6, 15, 17])
    np.testing.assert_allclose(first["values"][0, 6:15], expected[1][3], atol=2e-3)
    assert list(second["tokens"][:2]) == ["[CLS]", "york"]
    assert feature_files.write(path, features, config, "tfrecord", "float32", 3) == 4
    names = [f"{path}-0000{i}.tfrecord" for i in range(2)]
    examples = [
        tf.train.Example.FromString(record.numpy()).features.feature
        for record in tf.data.TFRecordDataset(names)
    ]
    indices = [example["line_index"].int64_list.value[0] for example in examples]
    assert indices == [0, 1, 2, 3]
    values = np.frombuffer(examples[1]["values"].bytes_list.value[0], "<f4")
    shape = examples[1]["shape"].int64_list.value
    np.testing.assert_allclose(values.reshape(shape)[0], expected[1][3], atol=1e-5)


def run_extract_features(folder, input_file):
    flags = (
        f"--input_file={input_file} --output_file={folder}/out.jsonl "
        f"--init_checkpoint={folder}/model --layers=-1,-3 --max_seq_length=12"
    )
    command = "bert_tf.run_scripts.extract_features", flags.split()
    (result,) = run_mains([command], stdin=folder / "in.txt")
    assert result.code == 0, result
    return (folder / "out.jsonl").read_text()


def test_extract_features_writes_the_released_format(encoder, expected, tmp_path):
    save_checkpoint(encoder, BertTokenizer(VOCABULARY), tmp_path / "model")
    text = "\n".join(LINES) + "\n"
    (tmp_path / "in.txt").write_text(text)
    (tmp_path / "in.txt.gz").write_bytes(gzip.compress(text.encode()))
    texts = run_extract_features(tmp_path, tmp_path / "in.txt").splitlines()
    lines = [json.loads(line) for line in texts]
    assert texts == [json.dumps(line) for line in lines]
    entry = lines[0]["features"][0]
    keys = [" ".join(each) for each in (lines[0], entry, entry["layers"][0])]
    assert keys == ["linex_index features", "token layers", "index values"]
    assert [line["linex_index"] for line in lines] == [0, 1, 2, 3]
    tokens = [entry["token"] for entry in lines[0]["features"]]
    assert tokens == [VOCABULARY[i] for i in IDS[0]]
    for line, states in zip(lines, expected, strict=True):
        for layer, state in ((0, states[3]), (1, states[1])):
            vectors = [entry["layers"][layer] for entry in line["features"]]
            assert {vector["index"] for vector in vectors} == {(-1, -3)[layer]}
            values = np.array([vector["values"] for vector in vectors])
            np.testing.assert_array_equal(values, values.round(6))
            np.testing.assert_allclose(values, state, atol=1e-5)
    # Standard input and a compressed file give the same features.
    for input_file in ("-", tmp_path / "in.txt.gz"):
        assert run_extract_features(tmp_path, input_file).splitlines() == texts
