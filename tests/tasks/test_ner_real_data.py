"""WNUT-2017 and Universal NER: all sentences are read, encoded and written."""

import pytest
from ner_data import make_task, outputs_of, read
from prepared import prepared
from reference import conlleval as reference

from bert_tf.tasks.ner.ner_task import NerTask
from bert_tf.tasks.task import DataLocation
from bert_tf.tokenization import BertTokenizer

SENTENCES = {
    "wnut17": {"train": 3394, "dev": 1009, "test": 1287},
    "uner_ewt": {"train": 12543, "dev": 2001, "test": 2077},
}
TYPES = {
    "wnut17": [
        "corporation",
        "creative-work",
        "group",
        "location",
        "person",
        "product",
    ],
    "uner_ewt": ["LOC", "ORG", "PER"],
}


def test_number_signs_are_words(test_data):
    """No line of these files is a comment, and their columns give no warning."""
    task, signs, hashes = make_task(), 0, 0
    for name, sizes in SENTENCES.items():
        for kind in sizes:
            path = test_data / f"data/ner/{name}_{kind}.conll"
            examples, counts = read(task, path, kind)
            words = [word for each in examples for word in each.words]
            lines = [
                line for line in path.read_text("utf-8").split("\n") if line.strip()
            ]
            assert words == [line.split("\t")[0] for line in lines]
            signs += words.count("#")
            hashes += sum(word.startswith("#") for word in words)
            (summary,) = counts.notes["read"]
            assert summary.startswith("words: column 0 of 2; tags: column 1: ")
            assert "scheme iob2" in summary and not counts.notes["warnings"]
    assert (signs, hashes) == (321, 1150)


@pytest.mark.slow
@pytest.mark.parametrize("name", SENTENCES)
def test_correct_predictions_have_the_highest_scores(name, test_data, tmp_path):
    tokenizer = BertTokenizer(
        str(test_data / "data/vocab/bert-base-cased-vocab.txt"), False
    )
    paths = {
        kind: test_data / f"data/ner/{name}_{kind}.conll" for kind in SENTENCES[name]
    }
    location = DataLocation(train_file=str(paths["train"]))
    task = prepared(NerTask(), location, tokenizer=tokenizer)
    assert task.labels[1::2] == tuple(f"B-{each}" for each in TYPES[name])
    for kind, path in paths.items():
        examples, counts = read(task, path, kind)
        assert len(examples) == SENTENCES[name][kind] and not counts
        folder = tmp_path / kind
        (split,) = task.splits("test", DataLocation(test_file=str(path)))
        # Many sentences are longer than these windows.
        encoded = task.encode(examples, tokenizer, 24)
        assert encoded.records_per_example.max() > 3
        indices = [task.labels.index(tag) for each in examples for tag in each.tags]
        outputs = outputs_of(encoded.columns, encoded.records_per_example, indices)
        results = task.make_results(split)
        pairs = zip(examples, outputs, strict=True)
        results.write(
            str(folder), ((each, results.decode(each, found)) for each, found in pairs)
        )
        assert set(results.metrics().values()) == {100.0}
        written = reference.of_file(folder / "predictions.conll", "\t")
        assert reference.overall(written) == (100, 100, 100)
        assert written.words == sum(len(each.words) for each in examples)
