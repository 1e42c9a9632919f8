"""The split into train, dev and test: its sizes, and the removal of boilerplate."""

import random

from bert_tf.sample_data import splits as split
from bert_tf.sample_data.cleaning import Document, Text


def document(*lines: str, library="python"):
    return Document(library, tuple(Text(line, ()) for line in lines))


def test_each_library_has_the_requested_heldout_fraction():
    rng = random.Random(0)
    words = [f"w{i}" for i in range(5000)]
    documents = []
    for number in range(600):
        lines = (" ".join(rng.sample(words, 12)) for _ in range(4))
        documents.append(document(*lines, library=f"l{number % 3}"))
    parts = split.assign_parts(documents, 0.2, seed=1)
    for library in ("l0", "l1", "l2"):
        pairs = zip(parts, documents, strict=True)
        library_parts = [part for part, each in pairs if each.library == library]
        assert 0.17 < 1 - library_parts.count("train") / len(library_parts) <= 0.2
        assert abs(library_parts.count("dev") - library_parts.count("test")) <= 3
    assert parts == split.assign_parts(documents, 0.2, seed=1)
    assert parts != split.assign_parts(documents, 0.2, seed=2)


def test_boilerplate_and_then_documents_of_one_sentence_are_removed():
    common = "this sentence is part of every one of the documents"
    short = "default is none"
    documents = [
        document(f"word{i} one", common, short, f"word{i} two") for i in range(20)
    ]
    documents.append(document("only this one", common))
    found = split.remove_boilerplate(documents)
    assert [[s.text for s in each.texts] for each in found] == [
        [f"word{i} one", f"word{i} two"] for i in range(20)
    ]
