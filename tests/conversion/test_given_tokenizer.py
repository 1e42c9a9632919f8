"""The tokenizer of a converted checkpoint, and that of sentence vectors."""

import dataclasses
import string

import export_models
import pytest
from json_files import write_json
from refusals import refused
from tiny_bert import SPECIAL

from bert_tf.config import BertConfig
from bert_tf.conversion.checkpoint_contents import CheckpointContents
from bert_tf.conversion.checkpoint_vocabulary import with_tokenizer
from bert_tf.conversion.sentence_transformers import read_embedding
from bert_tf.pretrained import Pretrained

VOCABULARY = [*SPECIAL, "a", "b"]


def contents(vocab_size):
    config = BertConfig(vocab_size=vocab_size)
    return CheckpointContents("model", "hugging_face", {}, config, VOCABULARY)


def test_only_a_given_vocabulary_must_have_about_the_size_of_the_model(tmp_path):
    assert with_tokenizer(contents(50_000), None, None).vocabulary == VOCABULARY
    with refused("7 entries, but the model's vocab_size is 6"):
        with_tokenizer(contents(6), None, None)
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(VOCABULARY) + "\n")
    with refused("7 entries, but the model's vocab_size is 50000"):
        with_tokenizer(contents(50_000), str(path), None)


def test_a_checkpoint_without_a_casing_gets_that_of_its_vocabulary_or_its_name():
    lower = contents(7)
    cased = dataclasses.replace(
        contents(33), vocabulary=[*VOCABULARY, *string.ascii_uppercase]
    )
    named = dataclasses.replace(lower, source="cased_L-12_H-768_A-12/run/model.ckpt")
    for each, casing in ((lower, None), (cased, False), (named, False)):
        assert with_tokenizer(each, None, None).do_lower_case is casing
        tokenizer = Pretrained(each.config, each).tokenizer
        assert tokenizer.do_lower_case is (casing is None)
    assert Pretrained(cased.config, cased, do_lower_case=True).tokenizer.do_lower_case


def test_lower_casing_with_a_cased_vocabulary_gets_a_warning(caplog):
    """As of a folder whose tokenizer_config.json states do_lower_case wrongly."""
    vocabulary = [*VOCABULARY, *string.ascii_uppercase, "##Ab", "[CAP]"]
    folder = dataclasses.replace(
        contents(35), vocabulary=vocabulary, do_lower_case=True
    )
    assert Pretrained(folder.config, folder).tokenizer.do_lower_case
    assert [each for each in caplog.messages if each.startswith("warning: ")] == [
        "warning: do_lower_case is True, so no text reaches 27 of 29 entries of the "
        "vocabulary of model, which have upper-case letters. Check the do_lower_case "
        "of the model."
    ]
    caplog.clear()
    for each in (dataclasses.replace(folder, do_lower_case=False), contents(7)):
        with_tokenizer(each, None, None)
    assert not caplog.messages


@pytest.mark.parametrize("lower", [True, None])
def test_lower_casing_before_a_tokenizer_is_refused_only_if_it_is_cased(
    tmp_path, lower
):
    export_models.write_sentence_transformer(
        tmp_path, {"pooling_mode_mean_tokens": True}, False
    )
    write_json(tmp_path / "sentence_bert_config.json", {"do_lower_case": True})
    assert read_embedding(str(tmp_path), lower) == {
        "pooling": "mean",
        "normalize": False,
    }
    assert "before a cased tokenizer" in read_embedding(str(tmp_path), False)["problem"]
