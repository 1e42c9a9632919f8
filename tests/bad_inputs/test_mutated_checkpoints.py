"""2,000 random changes of each kind of checkpoint: an `InputError`, or contents that are valid.

A format with checksums must give the unchanged contents. Another exception, a crash or an endless
loop fails the test. The random changes are the same in each run.
"""

import contextlib
import json
import pathlib
import zipfile

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from bert_tf.config import BertConfig
from bert_tf.conversion import CheckpointContents, read_config, read_weights, write_weights
from bert_tf.errors import InputError
from bert_tf.modeling import BertEncoder, arrays_by_name

CONFIG = BertConfig(9, 8, 1, 2, 8, max_position_embeddings=16, type_vocab_size=2)
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##c", "."]
FILES = {
    "bert-tf": ["model.safetensors", "weights.json", "bert_config.json", "vocab.txt"],
    "google": ["bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"],
    "hugging_face": ["model.safetensors", "config.json", "tokenizer_config.json", "vocab.txt"],
}
KINDS = ("flip", "replace", "insert", "delete", "cut", "repeat")

pytestmark = pytest.mark.slow
repeatable = hypothesis.settings(
    max_examples=2000, derandomize=True, deadline=None, database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
    phases=[hypothesis.Phase.generate],
)  # fmt: skip
changes = st.tuples(
    st.sampled_from(KINDS), st.integers(0, 1 << 32), st.integers(0, 7), st.binary(min_size=1)
)


@pytest.fixture(scope="module", params=FILES)
def dialect(request):
    return request.param


def write(folder, dialect):
    contents = CheckpointContents(
        "a model", "bert-tf", arrays_by_name(BertEncoder(CONFIG, seed=1)), CONFIG, VOCABULARY,
        True, {"labels": ["no", "yes"]},
    )  # fmt: skip
    write_weights(contents, str(folder), dialect)


def mutate(content, change):
    kind, place, bit, data = change
    # Half of the changes are in the first bytes, which describe the others.
    at = place % (min(len(content), 200) if place % 2 else len(content)) if content else 0
    if kind == "flip" and content:
        return content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
    if kind == "replace":
        return content[:at] + data + content[at + len(data) :]
    if kind == "insert":
        return content[:at] + data + content[at:]
    if kind == "delete":
        return content[:at] + content[at + len(data) :]
    if kind == "cut":
        return content[:at]
    return content[:at] + content[at // 2 :]


@contextlib.contextmanager
def replaced(path, content):
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        yield
    finally:
        path.write_bytes(before)


def values(contents):
    """Returns everything that was read, in a form that can be compared."""
    arrays = {name: (array.shape, array.tobytes()) for name, array in contents.arrays.items()}
    return arrays, contents.config, contents.vocabulary, contents.do_lower_case, contents.extra


def assert_valid(contents):
    for array in contents.arrays.values():
        assert array.dtype == np.float32 and np.isfinite(array).all()
    assert contents.config is None or BertConfig.from_dict(contents.config.to_dict())
    assert all(isinstance(token, str) for token in contents.vocabulary or ())


@contextlib.contextmanager
def counted(counts):
    """Counts the blocks that end with an `InputError`, and those without an error."""
    try:
        yield
        counts["valid"] += 1
    except InputError:
        counts["refused"] += 1


def test_a_changed_checkpoint_is_refused_or_valid(dialect, tmp_path_factory):
    folder = tmp_path_factory.mktemp(dialect)
    write(folder, dialect)
    expected = values(read_weights(str(folder)))
    refused = []

    @repeatable
    @hypothesis.given(st.sampled_from(FILES[dialect]), changes)
    def check(name, change):
        path = folder / name
        with replaced(path, mutate(path.read_bytes(), change)):
            try:
                contents = read_weights(str(folder))
            except InputError as error:
                refused.append(str(error))
                return
        if dialect == "hugging_face":
            assert_valid(contents)
        else:
            assert values(contents) == expected

    check()
    assert len(refused) > 500


def test_a_changed_zip_file_is_refused_or_valid(tmp_path):
    write(tmp_path / "model", "google")
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in sorted(pathlib.Path(tmp_path, "model").iterdir()):
            archive.write(each, f"model/{each.name}")

    counts = {"refused": 0, "valid": 0}

    @repeatable
    @hypothesis.given(changes)
    def check(change):
        content = path.read_bytes()
        # The directory at the end has no checksum, so most changes are there.
        part = content[-700:] if change[1] % 3 else content
        changed = content[: len(content) - len(part)] + mutate(part, change)
        with replaced(path, changed), counted(counts):
            assert_valid(read_weights(str(path)))

    check()
    assert counts["refused"] > 500 and counts["valid"] > 50, counts


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from([10**12, -1, "gelu", "BertModel", "../x", "[PAD]"]),
    lambda children: st.lists(children, max_size=3)
    | st.dictionaries(st.text(max_size=5) | st.sampled_from("01"), children, max_size=3),
    max_leaves=5,
)  # fmt: skip
KEYS = {
    "config.json": [
        "architectures", "hidden_act", "id2label", "model_type", "is_decoder", "hidden_size",
        "pruned_heads", "tokenizer_class", "layer_norm_eps", "vocab_size", "num_attention_heads",
        "hidden_dropout_prob", "position_embedding_type", "num_hidden_layers",
    ],
    "tokenizer_config.json": [
        "tokenizer_class", "do_lower_case", "strip_accents", "added_tokens_decoder", "unk_token",
        "additional_special_tokens", "tokenize_chinese_chars",
    ],
    "tokenizer.json": ["model", "normalizer", "pre_tokenizer", "post_processor", "added_tokens"],
    "special_tokens_map.json": ["unk_token", "additional_special_tokens"],
    "added_tokens.json": ["x"],
    "modules.json": ["type"],
    "model.safetensors.index.json": ["weight_map"],
}  # fmt: skip
changed_values = st.sampled_from([(name, key) for name, keys in KEYS.items() for key in keys])


def test_odd_values_in_json_are_refused_or_valid(tmp_path):
    folder = tmp_path / "model"
    write(folder, "hugging_face")
    for name in KEYS:
        if not (folder / name).exists():
            (folder / name).write_text("{}")
    (folder / "modules.json").write_text("[]")
    counts = {"refused": 0, "valid": 0}

    @repeatable
    @hypothesis.given(changed_values, json_values, st.booleans(), changes)
    def check(place, value, is_nested, change):
        path, key = folder / place[0], place[1]
        before = json.loads(path.read_text())
        value = {"type": value, "vocab": value, "single": value} if is_nested else value
        after = {**before, key: value} if isinstance(before, dict) else [{key: value}, value]
        content = json.dumps(after).encode()
        if change[1] % 4 == 0:
            content = mutate(content, change)
        index = "model.safetensors.index.json"
        moved = place[0] == index
        with replaced(path, content), counted(counts):
            if moved:
                (folder / "model.safetensors").rename(folder / "x")
            try:
                assert_valid(read_weights(str(folder)))
                read_config(str(folder / "config.json"))
            finally:
                if moved:
                    (folder / "x").rename(folder / "model.safetensors")

    check()
    assert counts["refused"] > 500 and counts["valid"] > 50, counts
