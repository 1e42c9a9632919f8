"""Reading vocab.txt: the accepted files, and the message for each refused file."""

import collections
import errno
import logging
import os
import string

import pytest
from reference import tokenizer as reference
from refusals import refused
from tiny_bert import SPECIAL

from bert_tf.config import BertConfig
from bert_tf.pretrained import Pretrained
from bert_tf.tokenization import BertTokenizer, check_size, load_vocabulary
from bert_tf.tokenization.vocabulary import recorded_casing, write_vocabulary
from bert_tf.vocabularies.learning import VocabularyConfig, learn

GOOD = [*SPECIAL, "a", "##b"]


def write(folder, content):
    path = folder / "vocab.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


@pytest.mark.parametrize(
    "content",
    [
        "\n".join(GOOD),
        "\n".join(GOOD) + "\n",
        "\r\n".join(GOOD) + "\r\n",
        "\n".join(GOOD) + "\n\n\n",
        "\ufeff" + "\n".join(GOOD),
        " \n".join(GOOD),
        "\n".join(f"\u3000{token}\xa0\x85\u2028" for token in GOOD) + "\n\xa0\n\u3000",
    ],
    ids=[
        "no end",
        "plain",
        "crlf",
        "empty last lines",
        "bom",
        "spaces",
        "Unicode spaces",
    ],
)
def test_valid_files_give_the_tokens(tmp_path, content):
    assert load_vocabulary(write(tmp_path, content)) == GOOD


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "\n".join(GOOD).encode("utf-16"),
            r"is UTF-16, according to its byte-order mark\. .*iconv -f UTF-16",
        ),
        (
            "\n".join([*GOOD, "[MASK]\xa0"]),
            r"line 8 repeats \[MASK\] of line 5, so its id is not",
        ),
        (
            "\r".join([*GOOD, *map(str, range(10**5))]),
            r"vocab.txt has the line ends CR.{,60}$",
        ),
        ("\n".join(GOOD[:4]), r"is \[MASK\]"),
        ("", r"none of the 0 lines is \[PAD\]"),
        ("\n".join(GOOD).encode() + b"\n\xe9t\xe9\n", "not UTF-8: byte 0xe9 in line 8"),
        ("\n".join([*GOOD, "x" * 257]), "line 8 is longer than 256 bytes"),
        *(
            (
                "\n".join([*GOOD, token]) + "\n",
                "line 8 contains a line end or NUL: 'a.{,90}$",
            )
            for token in ("a\x00b" + "c" * 99, "a\rb")
        ),
    ],
)
def test_invalid_files_are_refused_with_the_line(tmp_path, content, message):
    path = write(tmp_path, content)
    with refused(message) as caught:
        load_vocabulary(path)
    assert path in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "size", "cls_id", "do_lower_case"),
    [
        ("bert-base-uncased", 30522, 101, True),
        ("bert-base-cased", 28996, 101, False),
        ("bert-base-multilingual-cased", 119547, 101, False),
        ("bert-base-chinese", 21128, 101, True),
    ],
)
def test_released_files_are_read_exactly(
    test_data, caplog, name, size, cls_id, do_lower_case
):
    path = test_data / f"data/vocab/{name}-vocab.txt"
    with caplog.at_level(logging.INFO):
        tokenizer = BertTokenizer(str(path))
    assert tokenizer.vocab_size == size
    assert tokenizer.do_lower_case is do_lower_case
    cased = {
        "bert-base-cased": "8366 of 28890",
        "bert-base-multilingual-cased": "18992 of 119441",
    }
    messages = [
        f"{path} has upper-case letters in {cased[name]} entries: "
        "do_lower_case is False."
        for _ in range(not do_lower_case)
    ]
    assert [each for each in caplog.messages if "upper-case" in each] == messages
    ids = (
        tokenizer.pad_id,
        tokenizer.unk_id,
        tokenizer.cls_id,
        tokenizer.sep_id,
        tokenizer.mask_id,
    )
    assert ids == (0, 100, cls_id, 102, 103)
    # Two Chinese tokens contain U+2028, so only \n may end a line.
    assert "\n".join(tokenizer.vocabulary) + "\n" == path.read_bytes().decode()


def test_only_the_two_tokens_of_the_released_chinese_file_keep_their_white_space(
    tmp_path,
):
    path = write(
        tmp_path, "\n".join([*GOOD, "\u2028", "##\u2028", "c\u2028", "d\u2028e"])
    )
    assert load_vocabulary(path) == [*GOOD, "\u2028", "##\u2028", "c", "d\u2028e"]


ODD = [
    *GOOD,
    "",
    "b",
    "a",
    "c d",
    "e\tf",
    "g\u00a0h",
    "i\u0085j",
    "k\u2028l",
    "m\u2029n",
    "o\u3000p",
    "##b",
    "\u3000",
    "##",
    "## q",
    "d",
    "q",
    "[unused1]",
    "[unused1]",
    "b",
    "\u2028",
    "z",
]


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_the_ids_are_the_numbers_of_the_lines_of_any_accepted_file(
    tmp_path, do_lower_case
):
    """Entries that are repeated, empty, or with white space, as in `load_vocab`."""
    path = write(tmp_path, "\n".join(ODD) + "\n\n")
    released = reference.Tokenizer(ODD, do_lower_case)
    tokenizer = BertTokenizer(path, do_lower_case)
    assert tokenizer.vocabulary == ["" if each == "\u3000" else each for each in ODD]
    texts = [
        *ODD,
        " ".join(ODD),
        "".join(ODD[5:]),
        "a b ab abb bb zb z  z",
        "c d q d [unused1]",
    ]
    assert tokenizer.tokenize(texts).to_list() == [
        released.tokenize(text) for text in texts
    ]
    assert tokenizer.tokenize("ab b a").numpy().tolist() == [9, 17, 25, 9]
    # Each id gives its entry, also that of a repeated one.
    assert tokenizer.detokenize([5, 9, 7, 8, 17]).numpy() == b"a a bb"


def test_a_vocabulary_that_does_not_fit_the_model_is_refused():
    check_size(GOOD, 7)
    check_size(GOOD, 128)
    for size in (6, 135):
        with refused(rf"7 entries.*vocab_size is {size}"):
            check_size(GOOD, size)


def of_a_model_without_checkpoint(path, do_lower_case=None):
    config = BertConfig(vocab_size=len(GOOD))
    return Pretrained(
        config, None, vocab_file=path, do_lower_case=do_lower_case
    ).tokenizer


@pytest.mark.parametrize("load", [BertTokenizer, of_a_model_without_checkpoint])
def test_the_casing_next_to_a_vocabulary_is_checked(tmp_path, load):
    path = write(tmp_path, "\r\n".join(GOOD))
    assert recorded_casing(path) is None
    load(path, do_lower_case=True)  # no file, so nothing to check
    write_vocabulary(path, GOOD, False)
    write(tmp_path, "\r\n".join(GOOD))
    assert recorded_casing(path) is False
    assert not load(path).do_lower_case
    assert not load(path, do_lower_case=False).do_lower_case
    with refused(r"is True, but .*vocab\.txt .*=False .*Set do_lower_case=False"):
        load(path, do_lower_case=True)


def test_the_entries_of_a_vocabulary_decide_a_casing_that_is_not_recorded(tmp_path):
    words = (
        "Anna Berlin Carl Dora Ella Fritz Gera Hans Ida Jena aß kalte Milch im Haus "
        "von Frau Quitz"
    )
    for cased in (True, False):
        path = tmp_path / f"{cased}.txt"
        counts = collections.Counter((words if cased else words.lower()).split() * 3)
        config = VocabularyConfig(vocab_size=200, do_lower_case=not cased)
        write_vocabulary(str(path), learn(counts, config).tokens, not cased)
        (tmp_path / f"{cased}.txt.json").unlink()
        assert BertTokenizer(path).do_lower_case is not cased
        assert BertTokenizer(load_vocabulary(str(path))).do_lower_case is not cased
        for given in (True, False):  # a given value has priority
            assert BertTokenizer(path, do_lower_case=given).do_lower_case is given
        model = Pretrained(BertConfig(vocab_size=200), None, vocab_file=str(path))
        assert model.tokenizer.do_lower_case is not cased
    few = [*GOOD, *map(chr, range(0x4E00, 0x4E00 + 3000)), *string.ascii_uppercase]
    assert (
        BertTokenizer(few).do_lower_case
        and BertTokenizer([*GOOD, "Haus"]).do_lower_case
    )
    assert BertTokenizer([*GOOD, *(f"[NAME{n}]" for n in range(99))]).do_lower_case


def test_the_casing_is_next_to_the_target_of_a_link(tmp_path):
    path, link = write(tmp_path, "\n".join(GOOD)), tmp_path / "link.txt"
    link.symlink_to(path)
    write_vocabulary(str(link), GOOD, False)
    assert not (tmp_path / "link.txt.json").exists()
    assert recorded_casing(str(link)) is recorded_casing(path) is False
    (tmp_path / "vocab.txt.json").rename(
        tmp_path / "link.txt.json"
    )  # as in a cache of the hub
    assert recorded_casing(str(link)) is False and recorded_casing(path) is None


def test_the_casing_of_a_replaced_vocabulary_is_ignored(tmp_path, caplog):
    path = write(tmp_path, "\n".join(GOOD))
    write_vocabulary(path, [*GOOD, "c"], False)
    write(tmp_path, "\n".join(GOOD))
    with caplog.at_level(logging.INFO):
        assert BertTokenizer(path, do_lower_case=True).do_lower_case
    assert caplog.messages == [
        f"{path}.json is ignored: it belongs to another vocabulary than {path}."
    ]


@pytest.mark.parametrize("first", [True, False])
def test_a_vocabulary_is_written_with_its_casing_or_not_at_all(
    tmp_path, monkeypatch, first
):
    path = str(tmp_path / "vocab.txt")
    write_vocabulary(path, GOOD, False)
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    failing = f"{path}.json" if first else path

    def replace(source, target, replace=os.replace):
        if target == failing:
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", replace)
        with refused("No space left on device"):
            write_vocabulary(path, [*GOOD, "c"], True)
    if not first:  # the vocabulary is replaced before its casing
        assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before
    assert recorded_casing(path) is not True
    write_vocabulary(path, [*GOOD, "c"], True)
    assert recorded_casing(path) is True
