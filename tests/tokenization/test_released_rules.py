"""The tokenizer equals the transcription of the released rules in `reference`."""

import json
import pathlib

import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference import tokenizer as reference
from tiny_bert import SPECIAL
from tokenizer_pairs import both_casings, needs_unicode_14, pair

from bert_tf.tokenization import unicode_tables
from tools import make_unicode_tables

LETTERS = [chr(code) for code in range(97, 123)]
TOKENS = (
    *SPECIAL,
    *LETTERS,
    *(f"##{c}" for c in LETTERS),
    *"ABCΣσςαβéßµ中文가各=;!-'.‘ˆ一\u1b4e\u10d6Eı",
    *(f"##{c}" for c in "ABCΣσςαβéßµ\u1b4eı"),
    "ab",
    "##bc",
    "αβ",
    "##ας",
    "hello",
    "##ing",
)
CASES = [
    "",
    " ",
    "Hello, world!",
    "unaffable",
    "ΟΔΟΣ ΣΑΣ Σ ΑΣ'Α ΑΣ. αΣ\u0301 Σ\u0301Σ",
    "İstanbul IĞDIR ı",
    "가각힣 \u1100\u1161\u11a8",
    "e\u0301 \u0301e e\u0327\u0301 a\u0315\u0300\u05ae\u0300b",
    "a≠b a;b a\u037eb \u1fefx",
    "½ ① ™ ﬁ Ａ a² № …",
    "a\u0000b\u0085c\u000bd\u200be\u00adf\ufeffg",
    "a\ufffdb",
    "a\u2028b\u2029c\u1680d\u202fe\u3000f",
    "中文a字\U0002f800\uf900b",
    "$^`~|<=>+",
    "[MASK] [CLS][SEP]",
    "## ##a a##b",
    "\U0001d15e\U0001d165\u302e \U0001d15f\U0001d16e\u1b44x",
    "\u302e\u1b44\u0301\u1715",
    "\u1b4ea a\u1b4e \u2e52a \U00011b00",
    "\U0010ff00a \U000e0020b",
    "x" * 199,
    "x" * 200,
    "x" * 201,
    "x" * 5000,
    "é" * 200,
    "é" * 201,
    "α" * 200,
    "α" * 201,
    "a " + "中" * 300,
    "a\u0301" * 200,
    "a\u0301" * 201,
    "b" * 150 + "!" + "b" * 150,
    "가" * 66,
    "가" * 67,
    "a." + "β" * 120 + " Σ " + "γ" * 201 + " ab",
]


def assert_equal(texts, tokenizer, released, words=True):
    """Compares ids with the reference; also compares words if `words` is True."""
    batch = tf.constant(texts, tf.string)
    split = [reference.words(text, released.do_lower_case) for text in texts]
    for text, found, expected in zip(
        texts, tokenizer.tokenize(batch).to_list(), split, strict=True
    ):
        assert found == released.ids_of(expected), text
    if words:
        found_words = tokenizer.words(batch).to_list()
        for text, found, expected in zip(texts, found_words, split, strict=True):
            assert [word.decode() for word in found] == expected, text


@pytest.fixture(scope="module", params=[True, False], ids=["uncased", "cased"])
def small(request):
    return pair(TOKENS, request.param)


@needs_unicode_14
@pytest.mark.parametrize("alone", [True, False], ids=["one by one", "together"])
def test_selected_texts(small, alone):
    texts = [case.encode() for case in CASES]
    for batch in [[text] for text in texts] if alone else [texts]:
        assert_equal(batch, *small)


@needs_unicode_14
@both_casings
@pytest.mark.parametrize("known", [True, False])
def test_tokens_that_no_text_can_match_are_never_found(do_lower_case, known):
    """The tokens contain tag characters, which are placeholders in the tokenizer."""
    tags = [chr(code) for code in unicode_tables.PLACEHOLDERS]
    later = [chr(code) for code in unicode_tables.LATER_PUNCTUATION]
    in_vocabulary = [*tags, *(later[:9] if known else [])]
    tokens = (
        *SPECIAL,
        "a",
        "##a",
        *in_vocabulary,
        *(f"##{each}" for each in in_vocabulary),
        "\ufffd",
        "\ufffd7",
        f"a{tags[0]}",
        f"{tags[1]}a",
    )
    texts = [
        text
        for each in [*later, *tags]
        for text in (each, f"a{each}a", f"{each}a", each * 2)
    ]
    texts += ["\ufffd", "\ufffd7", "a\ufffda", "7"]
    tokenizer, released = pair(tokens, do_lower_case)
    assert_equal(texts, tokenizer, released)
    assert tokenizer.detokenize([[7, tokens.index("\ufffd")]]).numpy().tolist() == [
        f"{tags[0]} \ufffd".encode()
    ]


def test_invalid_utf8_is_skipped(small):
    parts = [
        b"\xff",
        b"\xc3",
        b"\xe4\xb8",
        b"\xf0\x9f\x98",
        b"\xed\xa0\x80",
        b"\xc0\x80",
        b"\xe0\x80\x80",
        b"\xf4\x90\x80\x80",
        b"\xf8\x88\x80\x80\x80",
        b"\x80\xbf",
        b"\xf0\x80\x80\x80",
    ]
    texts = [
        form % part
        for part in parts
        for form in (b"%b", b"a%bb", b"a %b b", b"%b\xc3\xa9")
    ]
    assert_equal([*texts, b"".join(parts)], *small)


CHARACTERS = st.one_of(
    st.sampled_from(
        "aAbB Σσςέ.,'-!\t\n\u0301\u0345\u00ad\u200d\u302e\u1b44\U0001d165中가İßǅ\u2028"
    ),
    st.characters(),
)


def assert_equal_in_both_casings(texts):
    for do_lower_case in (True, False):
        assert_equal(texts, *pair(TOKENS, do_lower_case))


@needs_unicode_14
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.text(CHARACTERS, max_size=40), min_size=1, max_size=8))
def test_any_text(texts):
    assert_equal_in_both_casings([text.encode("utf-8", "ignore") for text in texts])


@needs_unicode_14
@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=30), min_size=1, max_size=8))
def test_any_bytes(texts):
    assert_equal_in_both_casings(texts)


SMALL = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "a", "ab", "##b", "##ab", ".", "中"]


@pytest.mark.parametrize("position", range(len(SMALL) + 1))
def test_the_unknown_token_may_have_every_id(position):
    """The operation of tensorflow-text stores the id of [UNK] in its model."""
    tokens = (*SMALL[:position], "[UNK]", *SMALL[position:])
    texts = [
        b"ab x a.x",
        b"",
        b"abx xab abab",
        "中x中".encode(),
        b"x" * 201,
        b"a" + b"b" * 200,
    ]
    assert_equal(texts, *pair(tokens, True))


@needs_unicode_14
@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.text("abcéα\u0301가", min_size=190, max_size=210), min_size=1, max_size=4
    )
)
def test_words_of_about_200_characters(words):
    assert_equal_in_both_casings([" ab ".join(words).encode()])


@needs_unicode_14
@pytest.mark.slow
def test_sigma_next_to_every_character_that_matters_to_its_form(small):
    code_points = make_unicode_tables.CODE_POINTS
    flagged = [
        code for code in code_points if make_unicode_tables.character_class(code)
    ]
    texts = [f"A{c}Σ{c} Σ{c}B {c}Σ a{c}\u1b44{c}\u302e{c}" for c in map(chr, flagged)]
    assert_equal([text.encode() for text in texts], *small)


def real_texts(folder: pathlib.Path):
    """Yields the lines of all text files and the strings of all JSON files."""
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".json":
            yield from _strings(json.loads(path.read_bytes()))
        elif path.is_file() and path.suffix in (
            ".txt",
            ".tsv",
            ".csv",
            ".conll",
            ".md",
        ):
            yield from path.read_bytes().split(b"\n")


def _strings(value):
    if isinstance(value, str):
        yield value.encode("utf-8", "ignore")
    elif isinstance(value, (list, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)


@pytest.fixture(scope="module")
def all_texts(test_data):
    return list(dict.fromkeys(real_texts(test_data / "data")))


@needs_unicode_14
def test_a_sample_of_real_text(released_vocabulary, all_texts):
    texts = all_texts[::500]
    assert_equal(texts, *released_vocabulary)
    released = released_vocabulary[1]
    assert all(
        released.tokenize_with_cache(text) == released.tokenize(text) for text in texts
    )


@needs_unicode_14
@pytest.mark.slow
def test_all_real_text(released_vocabulary, all_texts):
    tokenizer, released = released_vocabulary
    for start in range(0, len(all_texts), 20000):
        texts = all_texts[start : start + 20000]
        found = tokenizer.tokenize(tf.constant(texts)).to_list()
        expected = [released.tokenize_with_cache(text) for text in texts]
        different = [
            text
            for text, *ids in zip(texts, found, expected, strict=True)
            if ids[0] != ids[1]
        ]
        assert not different


def test_the_reference_equals_another_implementation(test_data):
    """`reference` equals the package `tokenizers`, except for three rules."""
    peer = pytest.importorskip("tokenizers")
    path = str(test_data / "data/vocab/bert-base-uncased-vocab.txt")
    other = peer.BertWordPieceTokenizer(path, lowercase=True)
    tokens = pathlib.Path(path).read_text("utf-8").split("\n")[:-1]
    released = reference.Tokenizer(tokens, True)
    lines = (
        (test_data / "data/corpora/wikitext2_heldout.txt")
        .read_text("utf-8")
        .split("\n")
    )
    for line in lines[::5]:
        assert other.encode(line, add_special_tokens=False).ids == released.tokenize(
            line
        ), line
    # `tokenizers` limits words to 100 characters, finds special tokens in text, and has
    # no rule for a final sigma.
    for text in ("x" * 150, "[MASK]", "ΟΔΟΣ"):
        assert other.encode(text, add_special_tokens=False).ids != released.tokenize(
            text
        ), text
