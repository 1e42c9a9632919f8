"""Reading data sets of tensorflow-datasets that the tests write."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from prepared import prepared
from reading import check, refused
from refusals import refused_with

from bert_tf.errors import InputError
from bert_tf.tasks.classification.classification_task import ClassificationTask
from bert_tf.tasks.classification.sources.custom import TextColumns, custom_task
from bert_tf.tasks.classification.sources.glue_tasks import GLUE_TASKS
from bert_tf.tasks.classification.sources.tfds_reader import (
    WITHOUT_LABEL,
    find_text_features,
    read_from_tfds,
)
from bert_tf.tasks.classification.text_examples import TextExample
from bert_tf.tasks.splits import RowCounts
from bert_tf.tasks.task import DataLocation

NLI = ("contradiction", "entailment", "neutral")
TEXT = tfds.features.Text()
# Data sets that tensorflow-datasets has a builder for. Their version must be that of
# the builder.
KNOWN = ("glue/ax", "glue/mnli", "glue/mrpc", "glue/rte", "glue/stsb")


def labels_of(*names):
    return tfds.features.ClassLabel(names=names)


PAIR = {"sentence1": TEXT, "sentence2": TEXT}
NLI_FEATURES = {
    "premise": TEXT,
    "hypothesis": TEXT,
    "label": labels_of("entailment", "neutral", "contradiction"),
    "idx": np.int32,
}


def nli_example(number, label):
    texts = {"premise": f"p{number}", "hypothesis": f"h{number}"}
    return {**texts, "label": label, "idx": number}


def build(folder, name, features, examples_by_split):
    """Writes a prepared data set; the name may contain a config."""
    version = tfds.builder(name).info.version if name in KNOWN else "1.0.0"
    data_dir = folder / "tfds" / name / str(version)
    data_dir.mkdir(parents=True)
    features = tfds.features.FeaturesDict(features)
    filename = name.split("/")[0]
    infos = []
    for split, examples in examples_by_split.items():
        path = data_dir / f"{filename}-{split}.tfrecord-00000-of-00001"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for example in examples:
                writer.write(
                    features.serialize_example(features.encode_example(example))
                )
        count = len(examples)
        infos.append(
            tfds.core.SplitInfo(name=split, shard_lengths=[count], num_bytes=100)
        )
    tfds.folder_dataset.write_metadata(
        data_dir=str(data_dir), features=features, split_infos=infos,
        filename_template="{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
    )  # fmt: skip
    return DataLocation(tfds_name=name, tfds_data_dir=str(folder / "tfds"))


def read(task, kind, location, counts=None):
    return [
        list(task.read(split, RowCounts() if counts is None else counts))
        for split in task.splits(kind, location)
    ]


def labelled(labels, text="text"):
    return custom_task(TextColumns(text), labels=labels)


def task_of(name, labels, pair=True, task_type="classification"):
    return ClassificationTask(name, labels, pair, None, task_type)


def build_tiny(folder):
    """Writes a data set with one example."""
    features = {"text": TEXT, "label": np.int64}
    return build(folder, "tiny", features, {"train": [{"text": "a", "label": 0}]})


def build_reviews(folder):
    """Writes a data set with five reviews to train and three to test."""
    label = labels_of("neg", "pos")
    rows = [{"text": f"review {n} é", "label": ("pos", "neg")[n % 2]} for n in range(5)]
    return build(
        folder,
        "reviews",
        {"text": TEXT, "label": label},
        {"train": rows, "test": rows[:3]},
    )


def test_the_splits_of_a_data_set_are_read(tmp_path):
    location = build_reviews(tmp_path)
    assert find_text_features(location) == ("text", None)
    task = prepared(custom_task(TextColumns("text")), location)
    assert task.labels == ("neg", "pos")
    (train,) = read(task, "train", location)
    assert sorted((e.text_a, e.text_b, e.label) for e in train) == [
        (f"review {number} é", None, ("pos", "neg")[number % 2]) for number in range(5)
    ]
    assert read(task, "train", location) == [train]  # the order is always the same
    # There is no validation split.
    assert read(task, "dev", location) == read(task, "test", location)


def test_another_split_or_a_part_can_be_named(tmp_path):
    location = dataclasses.replace(
        build_reviews(tmp_path), train_file="train[:4]", dev_file="train[4:]"
    )
    task = labelled(["neg", "pos"], "text")
    (train,), (dev,) = read(task, "train", location), read(task, "dev", location)
    assert (len(train), len(dev)) == (4, 1)
    assert len({example.text_a for example in train + dev}) == 5


def test_glue_labels_are_mapped_by_name(tmp_path):
    example = nli_example
    location = build(
        tmp_path, "glue/mnli", NLI_FEATURES,
        {
            "train": [example(0, "entailment"), example(1, "neutral"), example(2, 2)],
            "validation_matched": [example(3, 0)],
            "validation_mismatched": [example(4, 1)],
            "test_matched": [example(5, -1)],
            "test_mismatched": [example(6, -1)],
        },
    )  # fmt: skip
    task = read_from_tfds(task_of("mnli", NLI), location)
    assert task.labels == NLI
    (train,) = read(task, "train", location)
    assert train == [
        TextExample("p0", "h0", "entailment"),
        TextExample("p1", "h1", "neutral"),
        TextExample("p2", "h2", "contradiction"),
    ]
    assert [split.suffix for split in task.splits("dev", location)] == [
        "",
        "mismatched",
    ]
    assert read(task, "dev", location) == [
        [TextExample("p3", "h3", "entailment")], [TextExample("p4", "h4", "neutral")]
    ]  # fmt: skip
    assert [split.name for split in task.splits("test", location)] == [
        "test",
        "test_mismatched",
    ]
    assert read(task, "test", location) == [
        [TextExample("p5", "h5", None)], [TextExample("p6", "h6", None)]
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("names", "labels", "expected"),
    [
        ("not_equivalent equivalent", "0 1", "0 1"),
        ("not_duplicate duplicate", "0 1", "0 1"),
        ("unacceptable acceptable", "0 1", "0 1"),
        ("negative positive", "0 1", "0 1"),
        ("not_entailment entailment", "0 1", "0 1"),
        ("entailment not_entailment", "0 1", "1 0"),
        (
            "not_entailment entailment",
            "entailment not_entailment",
            "not_entailment entailment",
        ),
    ],
    ids=["mrpc", "qqp", "cola", "sst2", "wnli", "wnli_reversed", "rte"],
)
def test_names_become_the_labels_of_the_files(tmp_path, names, labels, expected):
    rows = [{"sentence1": "a", "sentence2": "b", "label": number} for number in (0, 1)]
    features = {**PAIR, "label": labels_of(*names.split())}
    location = build(tmp_path, "glue/any", features, {"train": rows})
    task = read_from_tfds(task_of("any", tuple(labels.split())), location)
    (train,) = read(task, "train", location)
    assert [example.label for example in train] == expected.split()


def test_ax_is_read_by_the_task_of_the_official_files(tmp_path):
    row = nli_example(0, -1)
    location = build(tmp_path, "glue/ax", NLI_FEATURES, {"test": [row]})
    task = read_from_tfds(GLUE_TASKS["ax"], location)
    assert task.facts == GLUE_TASKS["ax"].facts
    (split,) = task.splits("test", location)
    assert split.name == "test_ax" and split.suffix in task.submission.file_names
    assert [split.name for split in task.splits("dev", location)] == ["dev_ax"]
    assert read(task, "test", location) == [[TextExample("p0", "h0", None)]]


def test_scores_are_read_and_test_scores_of_minus_one_are_none(tmp_path):
    features = {**PAIR, "label": np.float32, "idx": np.int32}
    row = {"sentence1": "a", "sentence2": "b", "idx": 0}
    location = build(
        tmp_path, "glue/stsb", features,
        {
            "train": [{**row, "label": 3.75}, {**row, "label": 0.0}],
            "test": [{**row, "label": -1.0}],
        },
    )  # fmt: skip
    task = read_from_tfds(task_of("sts-b", (), task_type="regression"), location)
    assert [example.label for example in read(task, "train", location)[0]] == [
        3.75,
        0.0,
    ]
    assert [example.label for example in read(task, "test", location)[0]] == [None]


def test_training_examples_without_a_label_are_skipped_and_counted(tmp_path):
    features = {"text": TEXT, "label": labels_of("a", "b")}
    rows = [{"text": f"t{n}", "label": label} for n, label in enumerate([0, -1, 1, -1])]
    location = build(tmp_path, "snli_like", features, {"train": rows})
    counts = RowCounts()
    (train,) = read(labelled(["a", "b"], "text"), "train", location, counts)
    assert [example.text_a for example in train] == ["t0", "t2"]
    assert counts == {WITHOUT_LABEL: 2}


def test_several_labels_and_labels_without_names(tmp_path):
    topics = tfds.features.Sequence(labels_of("x", "y", "z"))
    features = {"text": TEXT, "topics": topics, "stars": np.int64, "ok": np.bool_}
    rows = [
        {"text": "one", "topics": ["z", "x"], "stars": 5, "ok": True},
        {"text": "two", "topics": [], "stars": -1, "ok": False},
    ]
    location = build(tmp_path, "topics", features, {"train": rows})
    task = prepared(
        custom_task(TextColumns("text", label="topics"), "multi_label"), location
    )
    assert task.labels == ("x", "y", "z")
    assert [example.label for example in read(task, "train", location)[0]] == [
        ("z", "x"),
        (),
    ]
    for label, expected in (("stars", ("-1", "5")), ("ok", ("false", "true"))):
        assert (
            prepared(custom_task(TextColumns("text", None, label)), location).labels
            == expected
        )


def test_the_fingerprint_changes_with_the_content(tmp_path):
    features = {"text": TEXT, "label": labels_of("a", "b")}
    task = labelled(["a", "b"], "text")
    found = set()
    for name in ("one", "two", "one"):
        folder = tmp_path / str(len(found)) / name
        location = build(
            folder, "same", features, {"train": [{"text": name, "label": 0}]}
        )
        (split,) = task.splits("train", location)
        assert split.source.name == "same/1.0.0:train"
        found.add(split.source.fingerprint())
    assert len(found) == 2


@pytest.mark.parametrize(
    ("text", "change", "words"),
    [
        ("text", {"tfds_name": "no_such_set"}, ("cannot load no_such_set",)),
        (
            "text",
            {"dev_file": "evaluation"},
            ("no split 'evaluation'. Its splits are: train.",),
        ),
        ("sentence", {}, ("no feature 'sentence'. Its ", " are: label, text.")),
    ],
    ids=["set", "split", "feature"],
)
def test_unknown_names_are_refused(tmp_path, text, change, words):
    location = dataclasses.replace(build_tiny(tmp_path), **change)
    task = labelled(["0", "1"], text)
    check(lambda location: read(task, "dev", location), location, refused(*words))


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    def builder(*arguments, **options):
        raise ModuleNotFoundError("No module named 'mwparser'", name="mwparser.extra")

    monkeypatch.setattr(tfds, "builder", builder)
    with pytest.raises(
        InputError, match=r"cannot load wiki: .*: pip install mwparser$"
    ):
        find_text_features(DataLocation(tfds_name="wiki"))


def test_a_damaged_file_is_refused(tmp_path):
    location = build_tiny(tmp_path)
    (path,) = tmp_path.rglob("*.tfrecord-*")
    path.write_bytes(path.read_bytes()[:-3])
    with refused_with("tiny/1.0.0:train cannot be read"):
        read(labelled(["0", "1"], "text"), "train", location)
