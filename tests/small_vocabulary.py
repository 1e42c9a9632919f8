"""A small vocabulary, and random texts of its words and of words that it lacks."""

from reference.tokenizer import Tokenizer
from tiny_bert import SPECIAL

from bert_tf.tokenization import BertTokenizer

TOKENS = [
    *SPECIAL,
    "the",
    "cat",
    "sat",
    "##s",
    "un",
    "##able",
    ",",
    ".",
    "!",
    "e",
    "##e",
    "猫",
]
WORDS = ["The", "cats", "sat", "unable", ",", "ÉE!", "猫", "dog", ".", "\u200b"]
TOKENIZER = BertTokenizer(TOKENS)
PLAIN = Tokenizer(TOKENS, True)


def random_text(rng):
    """Returns a text of up to eleven words, of which some have no token."""
    return " ".join(rng.choices(WORDS, k=rng.randrange(12)))
