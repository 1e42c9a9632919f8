"""`BertConfig`: its files and invalid values; all configs: paths and numbers."""

import dataclasses
import inspect
import json
import pathlib
import re

import numpy as np
import pytest
from refusals import refused

import bert_tf
from bert_tf.config import SIZES, BertConfig
from bert_tf.conversion.hugging_face import config_from_hugging_face

# The config files of the released uncased base model and of the released Chinese model.
BASE = {
    "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
    "max_position_embeddings": 512, "num_attention_heads": 12, "num_hidden_layers": 12,
    "type_vocab_size": 2, "vocab_size": 30522,
}  # fmt: skip
CHINESE = {
    **BASE, "vocab_size": 21128, "directionality": "bidi", "pooler_fc_size": 768,
    "pooler_num_attention_heads": 12, "pooler_num_fc_layers": 3,
    "pooler_size_per_head": 128,
    "pooler_type": "first_token_transform",
}  # fmt: skip


@pytest.mark.parametrize("values", [BASE, CHINESE])
def test_released_files_are_written_with_the_same_keys_and_values(values):
    config = BertConfig.from_json(json.dumps(values))
    assert json.loads(config.to_json()) == values
    assert set(config.extra) == set(values) - set(BASE)


def test_named_base_equals_the_released_file():
    assert BertConfig.named("base", 30522).to_dict() == BASE


def test_named_large_has_the_sizes_of_the_paper():
    """The paper (section 3) has L=24, H=1024, A=16 and a feed-forward size of 4H."""
    large = BertConfig.named("large", 30522, attention="causal")
    sizes = (large.num_hidden_layers, large.hidden_size, large.num_attention_heads)
    assert (*sizes, large.intermediate_size) == (24, 1024, 16, 4096)
    assert large.attention == "causal"
    with refused(r"must be one of tiny, mini.*Received: 'huge'"):
        BertConfig.named("huge", 30522)


def test_the_smaller_sizes_are_the_released_ones():
    """The table of google-research/bert has L and H; A is H / 64, and the feed-forward size 4H."""
    configs = {size: BertConfig.named(size, 10) for size in SIZES}
    sizes = {"tiny": (2, 128), "mini": (4, 256), "small": (4, 512), "medium": (8, 512)}
    for name, (layers, hidden) in sizes.items():
        assert configs[name].num_hidden_layers == layers
        assert configs[name].hidden_size == hidden
    for config in configs.values():
        assert config.head_size == 64
        assert config.intermediate_size == 4 * config.hidden_size


@pytest.mark.parametrize("change", [{"attention": "causal"}, {"layer_norm_eps": 1e-5}])
def test_keys_that_are_not_in_released_files_are_written_and_read(change):
    config = BertConfig.from_dict({**BASE, **change})
    assert config != BertConfig.from_dict(BASE)
    assert config.to_dict() == {**BASE, **change}
    assert BertConfig.from_json(config.to_json()) == config


def test_defaults_equal_those_of_the_released_class():
    assert BertConfig(30522).to_dict() == {**BASE, "type_vocab_size": 16}
    assert BertConfig(30522).layer_norm_eps == 1e-12


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"vocab_size": 0},
            r"vocab_size must be a whole number from 1 to 2\^31. Received: 0",
        ),
        (
            {"hidden_size": "768"},
            "hidden_size must be a whole number .* Received: '768'",
        ),
        (
            {"layer_norm_eps": "1e-12"},
            "layer_norm_eps must be a number. Received: '1e-12'",
        ),
        (
            {"num_attention_heads": 7},
            r"hidden_size \(768\) must be a multiple .* \(7\)",
        ),
        (
            {"hidden_dropout_prob": 1},
            r"hidden_dropout_prob must be from 0 to 0\.9+\. Received: 1",
        ),
        ({"initializer_range": 0}, "initializer_range must be above 0"),
        ({"layer_norm_eps": -1e-12}, "layer_norm_eps must be above 0"),
        ({"attention": "left"}, "attention must be one of"),
    ],
)
def test_invalid_values_are_refused(change, message):
    with refused(message):
        BertConfig.from_dict({**BASE, **change})


@pytest.mark.parametrize("key", [*BASE, "attention", "layer_norm_eps"])
def test_null_is_refused_with_file_and_key(key):
    """In `config.json` too, which does not have the key `attention`."""
    for read in (BertConfig.from_dict, config_from_hugging_face):
        if (read, key) != (config_from_hugging_face, "attention"):
            with refused(rf"a/config\.json.* {key} .*None"):
                read({**BASE, "classifier_dropout": None, key: None}, "a/config.json")


def test_text_without_a_config_is_refused():
    with refused(r"config\.json is not JSON"):
        BertConfig.from_json("{", "config.json")
    with refused("one JSON object"):
        BertConfig.from_json("[]")
    with refused(r"needs the key vocab_size.*hidden_size"):
        BertConfig.from_json('{"hidden_size": 768}')


PATH = re.compile(r"(^|_)(path|files?|dir|checkpoint|teacher|vocab|dev_data)$")
AS_NUMPY = {int: np.int64, float: np.float32, bool: np.bool_}


@pytest.mark.parametrize("name", bert_tf.__all__)
def test_public_arguments_can_be_path_objects_and_numbers_of_numpy(name):
    value = getattr(bert_tf, name)
    parameters = inspect.signature(value).parameters.values()
    texts = [each for each in parameters if "str" in str(each.annotation)]
    paths = {each.name for each in texts if PATH.search(each.name)}
    assert {each.name for each in texts if "PathLike" in str(each.annotation)} == paths

    if not name.endswith(("Config", "Settings", "Location", "LongTexts")):
        return
    values = {each.name: each.default for each in dataclasses.fields(value)}
    numbers = {
        name: AS_NUMPY[type(default)](default)
        for name, default in values.items()
        if type(default) in AS_NUMPY
    }
    numbers |= {"vocab_size": np.int64(9)} if name == "BertConfig" else {}
    config = value(**numbers, **dict.fromkeys(paths, pathlib.Path("a")))
    assert json.dumps(dataclasses.asdict(config))
    assert {getattr(config, name) for name in paths} <= {"a"}
