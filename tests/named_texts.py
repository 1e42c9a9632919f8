"""Random sentences about persons and places, with tags and with labels."""

import numpy as np
from tiny_bert import SPECIAL

WORDS = ["ann", "bob", "rome", "oslo", "lives", "in", "."]
VOCABULARY = [*SPECIAL, *WORDS]
TAGS = {"ann": "B-PER", "bob": "B-PER", "rome": "B-LOC", "oslo": "B-LOC"}


def sentences(seed, count):
    rng = np.random.default_rng(seed)
    return [rng.choice(WORDS, rng.integers(1, 9)).tolist() for _ in range(count)]


def write_split(folder, name, count, labels):
    """Writes a .conll file with tags, and a .tsv file with ann as the label.

    The label of a text says whether ann is named.
    """
    found = sentences(count, count)
    tagged = ("\n".join(f"{w} {TAGS.get(w, 'O')}" for w in words) for words in found)
    (folder / f"{name}.conll").write_text("\n\n".join(tagged) + "\n")
    rows = [f"{' '.join(words)}\t{labels['ann' in words]}" for words in found]
    (folder / f"{name}.tsv").write_text("\n".join(["sentence\tlabel", *rows]) + "\n")
