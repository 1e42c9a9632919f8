"""Tokenizers of Hugging Face folders: the same ids, or a refusal with the setting."""

import itertools
import json

import numpy as np
import pytest
import tokenizers
from json_files import edit_json
from refusals import refused_with
from tiny_bert import SPECIAL
from tokenizers import models, normalizers, pre_tokenizers, processors

from bert_tf.config import BertConfig
from bert_tf.conversion import (
    CheckpointContents,
    assign,
    convert,
    read_weights,
    write_weights,
)
from bert_tf.conversion.hugging_face_tokenizer import FILES
from bert_tf.modeling import BertEncoder, variables_by_name
from bert_tf.tokenization import BertTokenizer

TOKENS = [
    *SPECIAL, "Ab", "a", "##b", "c", ".", "é", "e",
    "日", "本",
    "##本", "[unused1]", "<", ">",
]  # fmt: skip
CONFIG = BertConfig(24, 12, 1, 3, 20, max_position_embeddings=10, type_vocab_size=2)
WEIGHTS = {
    n: np.asarray(v) for n, v in variables_by_name(BertEncoder(CONFIG, seed=0)).items()
}
TEXTS = [
    "Ab é 日本 c<x>[unused1]",
    "É\u0301 C.\u0000\u00a0ab abbbb",
    "a b\u200b@@b bb",
    "日 c",
]
CONFIG_FILE = "tokenizer_config.json"


def folder(path, vocabulary=None, **contents) -> str:
    """Writes a folder of a small encoder.

    `contents` maps names of tokenizer files to contents.
    """
    for name in FILES:
        (path / name).unlink(missing_ok=True)
    weights = CheckpointContents("source", "bert-tf", WEIGHTS, CONFIG, vocabulary)
    write_weights(weights, str(path), "hugging_face")
    (path / CONFIG_FILE).unlink()
    for name, content in contents.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (path / name).write_text(text, encoding="utf-8")
    return str(path)


BERT_NORMALIZER, BERT_SPLITS = (
    normalizers.BertNormalizer(),
    pre_tokenizers.BertPreTokenizer(),
)


def fast_tokenizer(
    normalizer=BERT_NORMALIZER, splits=BERT_SPLITS, added=(), **settings
):
    """Returns a tokenizer of the package tokenizers, by default with BERT's rules."""
    vocabulary = {token: index for index, token in enumerate(TOKENS)}
    fast = tokenizers.Tokenizer(
        models.WordPiece(vocabulary, **{"unk_token": "[UNK]", **settings})
    )
    fast.normalizer, fast.pre_tokenizer = normalizer, splits
    fast.add_special_tokens(SPECIAL)
    fast.add_tokens([*added])
    return fast


def ids_of(fast) -> list[list[int]]:
    return [fast.encode(text, add_special_tokens=False).ids for text in TEXTS]


def our_ids(vocabulary, do_lower_case) -> list[list[int]]:
    return BertTokenizer(vocabulary, do_lower_case).tokenize(TEXTS).to_list()


def generic(path, fast) -> str:
    """Writes a folder whose tokenizer class has the rules of `tokenizer.json`."""
    contents = {
        CONFIG_FILE: {"tokenizer_class": "PreTrainedTokenizerFast"},
        "tokenizer.json": fast.to_str(),
    }
    return folder(path, **contents)


def assert_refused(contents, *parts) -> None:
    assert contents.vocabulary is None
    with refused_with(*parts, contents.source, "Give a vocab.txt as vocab_file"):
        contents.vocabulary_for_tokenizer()


@pytest.mark.parametrize(
    ("lower", "strip"), itertools.product([True, False], [None, True, False])
)
def test_casing_and_accents_are_those_of_tokenizer_json(tmp_path, lower, strip):
    fast = fast_tokenizer(
        normalizers.BertNormalizer(lowercase=lower, strip_accents=strip)
    )
    contents = read_weights(generic(tmp_path, fast))
    assert contents.do_lower_case is lower
    same = our_ids(TOKENS, lower) == ids_of(fast)
    assert same is (strip in (None, lower))
    if same:
        assert contents.vocabulary_for_tokenizer() == TOKENS
        assert contents.tokenizer_problem == ""
    else:
        supported = f"(supported: null, {json.dumps(lower)})"
        assert_refused(contents, f"strip_accents is {json.dumps(strip)} {supported}")


REFUSED = {
    "tokenize_chinese_chars is false": fast_tokenizer(
        normalizers.BertNormalizer(handle_chinese_chars=False)
    ),
    "tokenizer.json/normalizer/clean_text is false": fast_tokenizer(
        normalizers.BertNormalizer(clean_text=False)
    ),
    'tokenizer.json/normalizer/type is "NFC"': fast_tokenizer(normalizers.NFC()),
    "tokenizer.json/normalizer is null": fast_tokenizer(None),
    'tokenizer.json/pre_tokenizer/type is "WhitespaceSplit"': fast_tokenizer(
        splits=pre_tokenizers.WhitespaceSplit()
    ),
    'tokenizer.json/model/continuing_subword_prefix is "@@" (supported: '
    '"##")': fast_tokenizer(continuing_subword_prefix="@@"),
    'tokenizer.json/model/unk_token is "c" (supported: "[UNK]")': fast_tokenizer(
        unk_token="c"
    ),
    "tokenizer.json/model/max_input_chars_per_word is 4": fast_tokenizer(
        max_input_chars_per_word=4
    ),
    'tokenizer.json adds the tokens "c<", "c.", "a b" and 1 more': fast_tokenizer(
        added=["c<", "c.", "a b", "q"]
    ),
}


@pytest.mark.parametrize("problem", REFUSED)
def test_other_rules_in_tokenizer_json_are_refused(tmp_path, problem):
    fast = REFUSED[problem]
    assert ids_of(fast) != our_ids(
        TOKENS, True
    )  # otherwise there is no reason to refuse
    assert_refused(read_weights(generic(tmp_path, fast)), problem)


@pytest.mark.parametrize("segment_of_b", [0, 1])
def test_a_post_processor_must_pack_as_bert_does(tmp_path, segment_of_b):
    fast = fast_tokenizer()
    fast.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair=f"[CLS]:0 $A:0 [SEP]:0 $B:{segment_of_b} [SEP]:{segment_of_b}",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    contents = read_weights(generic(tmp_path, fast))
    packed = BertTokenizer(TOKENS).encode(["Ab c"], ["e."], seq_length=None)
    encoded = fast.encode("Ab c", "e.")
    np.testing.assert_array_equal(packed["input_ids"][0], encoded.ids)
    same = packed["segment_ids"].numpy()[0].tolist() == encoded.type_ids
    assert same is (segment_of_b == 1)
    if same:
        assert contents.vocabulary_for_tokenizer() == TOKENS
    else:
        assert_refused(
            contents, "tokenizer.json/post_processor is not [CLS] A [SEP] B [SEP]"
        )


def with_gap() -> dict:
    serialized = json.loads(fast_tokenizer().to_str())
    serialized["model"]["vocab"]["late"] = 30
    return {
        CONFIG_FILE: {"tokenizer_class": "BertTokenizer"},
        "tokenizer.json": serialized,
    }


SAME = {"tokenizer.json": fast_tokenizer().to_str()}
FOLDERS = [
    (TOKENS, SAME, ""),
    ([*TOKENS[:-1], "other"], SAME,
     "vocab.txt and tokenizer.json/model/vocab hold different tokens"),
    (None, with_gap(),
     "tokenizer.json/model/vocab does not hold the ids 0, 1, 2 and so on"),
    (TOKENS, {CONFIG_FILE: {"do_lower_case": None}},
     "tokenizer_config.json/do_lower_case is null (supported: true, false)"),
]  # fmt: skip


@pytest.mark.parametrize(("vocabulary", "files", "problem"), FOLDERS)
def test_files_must_agree_and_be_complete(tmp_path, vocabulary, files, problem):
    contents = read_weights(folder(tmp_path, vocabulary, **files))
    if problem:
        assert_refused(contents, problem)
        if files == {CONFIG_FILE: {"do_lower_case": None}}:
            assert contents.do_lower_case is None
    else:
        assert contents.vocabulary == TOKENS


def test_a_repeated_token_of_vocab_txt_has_the_id_of_its_last_line(tmp_path):
    """As in AutoTokenizer, whose `tokenizer.json` then has gaps."""
    lines = [*TOKENS, "", "c", "", TOKENS[6]]
    fast = json.loads(fast_tokenizer().to_str())
    fast["model"]["vocab"] = {
        token: index for index, token in enumerate(lines) if token
    }
    source = folder(tmp_path, lines, **{"tokenizer.json": json.dumps(fast)})
    text = (tmp_path / "vocab.txt").read_text()
    (tmp_path / "vocab.txt").write_text(text.replace("\n\n", "\n\u3000\n"))
    contents = read_weights(source)
    assert contents.vocabulary_for_tokenizer() == lines
    encoded = tokenizers.Tokenizer.from_str(json.dumps(fast)).encode_batch(
        TEXTS, add_special_tokens=False
    )
    assert our_ids(lines, True) == [each.ids for each in encoded]
    fast["model"]["vocab"]["c"] -= 1
    source = folder(tmp_path, lines, **{"tokenizer.json": json.dumps(fast)})
    assert_refused(
        read_weights(source),
        "vocab.txt and tokenizer.json/model/vocab hold different tokens",
    )


def added_token(content) -> dict:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"content": content, **flags, "special": True}


# The content of tokenizer_config.json and of other files in a folder with `vocab.txt`,
# the ids that AutoTokenizer of transformers 5.23 gives for TEXTS[0] without [CLS] and
# [SEP], and the reason for a refusal. The ids of transformers 4.57 are the same, with
# two exceptions: 4.57 cannot read a list of `extra_special_tokens`, and does not add a
# token under a name that it does not know. Of `auto_map`, the ids are those of a class in
# the folder that returns [8], with trust_remote_code=True.
UNCASED = [6, 7, 11, 12, 13, 8, 16, 1, 17, 1, 1, 1]
CASED = [5, 10, 12, 13, 8, 16, 1, 17, 1, 1, 1]
WITH_X = [6, 7, 11, 12, 13, 8, 18, 1, 1, 1]
WITH_UNUSED = [6, 7, 11, 12, 13, 8, 16, 1, 17, 15]
SPECIAL_TOKENS_FILE = "special_tokens_map.json"
AUTO_TOKENIZERS = [
    ({}, {}, UNCASED, ""),
    ({"do_lower_case": False}, {}, CASED, ""),
    ({"do_lower_case": False, "strip_accents": False,
     "tokenizer_class": "BertTokenizerFast"}, {},
     CASED, ""),
    ({"do_lower_case": True, "strip_accents": True, "tokenize_chinese_chars": True,
      "tokenizer_class": "DistilBertTokenizer"}, {}, UNCASED, ""),
    ({"strip_accents": None, "tokenizer_class": "ElectraTokenizer",
     "do_basic_tokenize": False,
      "never_split": ["Ab"], "bos_token": None,
      "sep_token": {**added_token("[SEP]"), "__type": "AddedToken"}}, {}, UNCASED, ""),
    ({"bos_token": "[CLS]", "eos_token": "[SEP]",
     "additional_special_tokens": ["[MASK]"]},
     {"added_tokens.json": {},
      SPECIAL_TOKENS_FILE: {"unk_token": "[UNK]", "mask_token": added_token("[MASK]")}},
     UNCASED, ""),
    ({"added_tokens_decoder": {"2": added_token("[CLS]")}},
     {SPECIAL_TOKENS_FILE: {"additional_special_tokens": ["<x>"]}}, UNCASED, ""),
    ({"word_tokenizer_type": "mecab", "mecab_kwargs": {"mecab_dic": "ipadic"},
      "subword_tokenizer_type": "character", "wordpieces_prefix": "@@",
      "auto_map": {"AutoModel": "x.Model"}}, {}, UNCASED, ""),
    ({"auto_map": {"AutoTokenizer": ["x.OnlyC", None]}}, {}, [8],
     'tokenizer_config.json/auto_map is ["x.OnlyC", null] (supported: null)'),
    ({"auto_map": ["x.OnlyC", None]}, {}, [8], "tokenizer_config.json/auto_map is"),
    ({"strip_accents": False}, {}, [6, 7, 10, *UNCASED[3:]],
     "strip_accents is false (supported: null, true)"),
    ({"tokenize_chinese_chars": False}, {}, [6, 7, 11, 12, 14, *UNCASED[5:]],
     "tokenize_chinese_chars is false (supported: true)"),
    ({"tokenizer_class": "BertJapaneseTokenizer", "word_tokenizer_type": "basic",
      "subword_tokenizer_type": "wordpiece"}, {}, [5, 10, 12, 14, *CASED[4:]],
     'tokenizer_class is "BertJapaneseTokenizer"'),
    ({"unk_token": "c"}, {}, [8 if each == 1 else each for each in UNCASED],
     'tokenizer_config.json/unk_token is "c" (supported: "[UNK]")'),
    ({"cls_token": "[unused1]"}, {}, WITH_UNUSED,
     'tokenizer_config.json/cls_token is "[unused1]" (supported: "[CLS]")'),
    ({"added_tokens_decoder": {"18": added_token("<x>")}}, {}, WITH_X,
     'tokenizer_config.json adds the tokens "<x>"'),
    ({}, {"added_tokens.json": {"<x>": 18}}, WITH_X,
     'added_tokens.json adds the tokens "<x>"'),
    ({"extra_special_tokens": ["<x>"]}, {}, WITH_X,
     'tokenizer_config.json adds the tokens "<x>"'),
    ({}, {SPECIAL_TOKENS_FILE: {"additional_special_tokens": ["[unused1]"]}},
     WITH_UNUSED,
     'special_tokens_map.json adds the tokens "[unused1]"'),
    ({"x_token": "<x>"}, {}, WITH_X, 'tokenizer_config.json adds the tokens "<x>"'),
]  # fmt: skip


@pytest.mark.parametrize(("config", "others", "expected", "problem"), AUTO_TOKENIZERS)
def test_ids_equal_those_of_auto_tokenizer_or_the_setting_is_refused(
    tmp_path, config, others, expected, problem
):
    files = {CONFIG_FILE: config, **others} if config else others
    contents = read_weights(folder(tmp_path, TOKENS, **files))
    lower = contents.do_lower_case is not False
    ids = BertTokenizer(TOKENS, lower).tokenize(TEXTS[0]).numpy().tolist()
    assert (ids == expected) is (problem == "")
    if problem:
        assert_refused(contents, problem)
    else:
        assert contents.vocabulary_for_tokenizer() == TOKENS


def test_the_tokenizer_class_in_config_json_counts_if_there_is_no_other(tmp_path):
    source = folder(tmp_path, TOKENS)
    edit_json(tmp_path / "config.json", tokenizer_class="BertJapaneseTokenizer")
    assert_refused(read_weights(source), 'tokenizer_class is "BertJapaneseTokenizer"')
    (tmp_path / CONFIG_FILE).write_text('{"tokenizer_class": "BertTokenizer"}')
    assert read_weights(source).vocabulary == TOKENS


@pytest.mark.parametrize(
    ("setting", "key"),
    [
        ("do_lower_case", "lowercase"),
        ("strip_accents", "strip_accents"),
        ("tokenize_chinese_chars", "handle_chinese_chars"),
    ],
)
def test_a_setting_that_only_tokenizer_json_has_is_refused(tmp_path, setting, key):
    """AutoTokenizer (4.57 and 5.23) replaces it with the default, tokenizers does not.

    With the setting in `tokenizer_config.json`, there is no contradiction.
    """
    fast = fast_tokenizer(normalizers.BertNormalizer(**{key: False}))
    files = {"tokenizer.json": fast.to_str()}
    contents = read_weights(folder(tmp_path, **files))
    missing = f"because tokenizer_config.json/{setting} is missing (add it)"
    assert_refused(contents, f"tokenizer.json/normalizer/{key} is false", missing)
    defaults = {
        "do_lower_case": True,
        "strip_accents": None,
        "tokenize_chinese_chars": True,
    }
    source = folder(tmp_path, **files, **{CONFIG_FILE: defaults})
    assert read_weights(source).vocabulary_for_tokenizer() == TOKENS


def test_the_weights_of_a_refused_tokenizer_are_read_and_converted(tmp_path):
    source = folder(tmp_path / "source", TOKENS, **{"added_tokens.json": {"<x>": 18}})
    contents = read_weights(source)
    encoder = BertEncoder(contents.config)
    assert not assign(encoder, contents).missing
    report = convert(source, str(tmp_path / "converted"), "bert-tf")
    assert "No vocab.txt was written, because the tokenizer gives other ids" in report
    assert 'added_tokens.json adds the tokens "<x>"' in report
    assert not (tmp_path / "converted/vocab.txt").exists()
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    vocab_file = str(tmp_path / "vocab.txt")
    report = convert(
        source, str(tmp_path / "converted"), "bert-tf", vocab_file=vocab_file
    )
    assert "vocab.txt" not in report
    assert (
        read_weights(str(tmp_path / "converted")).vocabulary_for_tokenizer() == TOKENS
    )


def test_a_folder_without_a_vocabulary_has_none(tmp_path):
    contents = read_weights(folder(tmp_path))
    assert contents.vocabulary_for_tokenizer() is None
    assert contents.do_lower_case is None
