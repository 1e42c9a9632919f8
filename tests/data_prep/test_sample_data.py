"""Properties of the files of a small sample data folder."""

import hashlib
import re
import sys

import pytest
from json_files import read_json
from refusals import refused
from run_programs import run_main

from bert_tf.sample_data import build

DOCUMENTS = 700
PARTS = ("train", "dev", "test")


@pytest.fixture(scope="session")
def sample(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample") / "out"
    flags = [f"--max_documents={DOCUMENTS}", "--num_workers=2"]
    (done,) = run_main(
        "bert_tf.data_prep.make_sample_data", [f"--output_dir={folder}", *flags]
    )
    assert done.code == 0, done
    return folder


def file_contents(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def read_tsv(path):
    return [line.split("\t") for line in path.read_text("utf-8").splitlines()]


def documents(path):
    content = path.read_text("utf-8")
    assert content.endswith("\n\n")
    return [block.split("\n") for block in content.removesuffix("\n\n").split("\n\n")]


def eight_word_sequences(text):
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[i : i + 8]) for i in range(len(words) - 7)}


def test_one_worker_writes_the_same_bytes(sample, tmp_path):
    """Python seeds the hashes of strings with another number in each process."""
    config = build.SampleDataConfig(
        str(tmp_path / "other"), max_documents=DOCUMENTS, num_workers=1
    )
    build.build_sample_data(config)
    assert file_contents(tmp_path / "other") == file_contents(sample)


def test_stats_match_the_files(sample):
    stats = read_json(sample / "stats.json")
    files = file_contents(sample)
    assert set(stats["files"]) == set(files) - {"stats.json"}
    for name, file_stats in stats["files"].items():
        assert file_stats["sha256"] == hashlib.sha256(files[name]).hexdigest()
        assert file_stats["bytes"] == len(files[name])
    for name in ("train", "heldout"):
        texts = documents(sample / f"corpus/{name}.txt")
        counts = stats["files"][f"corpus/{name}.txt"]
        assert counts["documents"] == len(texts)
        assert counts["sentences"] == sum(map(len, texts))
    assert stats["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert sum(part["documents"] for part in stats["parts"].values()) <= DOCUMENTS


def test_corpus_is_clean(sample):
    for name in ("train", "heldout"):
        for document in documents(sample / "corpus" / f"{name}.txt"):
            assert len(document) >= 2
            for line in document:
                assert line == " ".join(line.split())
                assert not re.search(r">>>|`|https?://|[\ue000-\uf8ff\ufffc]", line)
                assert line[-1] in ".:!?\"')", line


def texts_of(sample, part):
    """Returns all texts of a part (train, dev or test) from all data sets."""
    _, *rows = read_tsv(sample / f"classification/{part}.tsv")
    name = "train" if part == "train" else "heldout"
    corpus = documents(sample / f"corpus/{name}.txt")
    return [*(row[0] for row in rows), *map(" ".join, corpus)]


def test_training_shares_no_eight_words_with_held_out_text(sample):
    train = set().union(*map(eight_word_sequences, texts_of(sample, "train")))
    for part in ("dev", "test"):
        heldout = set().union(*map(eight_word_sequences, texts_of(sample, part)))
        assert heldout
        assert not train & heldout


def test_classification_names_no_library(sample):
    labels = {"python", "tensorflow", "keras", "numpy", "scipy", "sklearn"}
    for part in PARTS:
        header, *rows = read_tsv(sample / "classification" / f"{part}.tsv")
        assert header == ["sentence", "label"]
        assert {row[1] for row in rows} == labels
        assert len({row[0].lower() for row in rows}) == len(rows)
        for passage, _ in rows:
            assert not re.search(
                r"(?i)tensorflow|keras|numpy|scipy|scikit|sklearn|python|\b(tf|np|sp|sk|py)\b",
                passage,
            )


def test_a_setting_out_of_range_is_refused_by_name(tmp_path):
    config = build.SampleDataConfig(str(tmp_path / "out"), heldout_fraction=0.6)
    with refused(r"^heldout_fraction must be .* Received: 0\.6\.$"):
        build.build_sample_data(config)


def test_too_few_documents_leave_no_files(tmp_path):
    config = build.SampleDataConfig(
        str(tmp_path / "out"), max_documents=5, num_workers=1
    )
    with refused("max_documents=5"):
        build.build_sample_data(config)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_full_sample_data_has_enough_text_that_can_be_learned(tmp_path):
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    stats = build.build_sample_data(build.SampleDataConfig(str(tmp_path / "out")))
    files = stats["files"]
    assert files["corpus/train.txt"]["bytes"] > 8_000_000
    assert files["corpus/train.txt"]["documents"] > 15_000
    assert files["classification/train.tsv"]["examples"] >= 8_000
    assert files["classification/dev.tsv"]["examples"] >= 800
    tables = (tmp_path / f"out/classification/{name}.tsv" for name in ("train", "dev"))
    train, dev = (list(zip(*read_tsv(path)[1:], strict=True)) for path in tables)
    assert max(map(dev[1].count, set(dev[1]))) < 0.35 * len(dev[1])
    words = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\w+")
    model = make_pipeline(words, LogisticRegression(max_iter=200, C=5)).fit(*train)
    assert model.score(*dev) > 0.65
    test_training_shares_no_eight_words_with_held_out_text(tmp_path / "out")
    test_classification_names_no_library(tmp_path / "out")
