"""Fixtures for the tests of `data_prep`."""

import functools
from typing import NamedTuple

import pytest
from tiny_corpus import (
    MANY_SEGMENTS,
    contents,
    corpus,
    create,
    text_of,
    vocabulary_file,
)

from bert_tf.record_creation.records_config import RecordsConfig
from bert_tf.record_jobs import inspection
from bert_tf.vocabularies import word_counts

_counter = functools.cache(word_counts._counter)


@pytest.fixture(autouse=True)
def one_counter(monkeypatch):
    """All tests share the function that counts words, because its trace takes long."""
    monkeypatch.setattr(word_counts, "_counter", _counter)


@pytest.fixture
def vocab_file(tmp_path):
    """Returns the path of the vocabulary of `tiny_corpus`."""
    return vocabulary_file(tmp_path)


class Inspection(NamedTuple):
    """Whether records passed the checks, the printed lines, those of broken rules."""

    passed: bool
    lines: list[str]
    broken: list[str]

    @property
    def out(self):
        return "\n".join(self.lines) + "\n"

    @property
    def unexpected(self):
        """The names of the unexpected statistics, and the names of the broken rules."""
        lines = [line.split(": ") for line in self.lines]
        return {
            line[1] for line in lines if line[0] in ("  NOT as expected", "  BROKEN")
        }


@pytest.fixture
def inspect(vocab_file, capsys):
    def run(*paths, **flags):
        capsys.readouterr()
        names = ",".join(map(str, paths))
        passed = inspection.inspect(RecordsConfig(vocab_file, **flags), names, 0)
        lines = capsys.readouterr().out.splitlines()
        result = Inspection(passed, lines, [line for line in lines if "BROKEN" in line])
        assert result.passed == (not result.unexpected), result.out
        assert result.passed == ("every figure is as expected" in result.out)
        return result

    return run


class Job(NamedTuple):
    """Settings, the path of a text of many segments, an uninterrupted run's files."""

    config: RecordsConfig
    source: str
    expected: dict[str, bytes]


@pytest.fixture(scope="session")
def job(tmp_path_factory):
    """Returns a job with the output name a.tfrecord."""
    folder = tmp_path_factory.mktemp("job")
    config = RecordsConfig(vocabulary_file(folder), **MANY_SEGMENTS)
    source = folder / "corpus.txt"
    source.write_text(text_of(corpus(200)), encoding="utf-8")
    create(config, source, f"{folder}/expected/a.tfrecord")
    return Job(config, str(source), contents(folder / "expected"))
