"""Builds the sample data: the corpus, the labelled sets and the count of everything.

Imports the parts beside it and `bert_tf.errors`, `files`, `progress`.
"""

import itertools
import os
import random
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from bert_tf import files
from bert_tf.errors import InputError
from bert_tf.progress import Progress
from data_prep.sample_data import documentation, sentence_sets, sentences, split
from data_prep.sample_data.documentation import Document, Source
from data_prep.sample_data.sentences import Text

STATS = "stats.json"
_CLASSIFICATION_PER_LABEL = {"train": 2000, "dev": 170, "test": 170}


@dataclass(frozen=True)
class SampleDataConfig:
    """What defines the sample data, and how to make it.

    Attributes:
        output_dir: The folder to write.
        max_documents: Harvest at most this many docstrings; 0 means all.
        heldout_fraction: The share of the text that is not for training, in (0, 0.5].
        seed: Of every random choice.
        num_workers: Processes that read and clean; the result does not depend on it.
        overwrite: Whether to replace what an earlier run wrote.
    """

    output_dir: str
    max_documents: int = 0
    heldout_fraction: float = 0.1
    seed: int = 12345
    num_workers: int = 2
    overwrite: bool = False


def build(config: SampleDataConfig) -> dict[str, Any]:
    """Writes the folder, whole or not at all.

    Returns:
        What `stats.json` holds.

    Raises:
        InputError: A setting is out of range, the folder holds something, or too few documents
            were found to fill every part.
    """
    _check(config)
    texts = _texts(harvest(config))
    parts = split.parts(texts, config.heldout_fraction, config.seed)
    by_part = {
        part: [t for t, p in zip(texts, parts, strict=True) if p == part] for part in split.PARTS
    }
    contents = {**corpus(by_part), **labelled(by_part, config.seed)}
    _check_filled(contents, config)
    stats = statistics(config, by_part, contents)
    with files.replacing(config.output_dir.rstrip("/")) as folder:
        for name, content in contents.items():
            files.write_text(os.path.join(folder, name), content)
        files.write_json(os.path.join(folder, STATS), stats)
    return stats


def _check(config: SampleDataConfig) -> None:
    from tensorflow.io import gfile

    if not 0 < config.heldout_fraction <= 0.5:
        raise InputError(
            f"--heldout_fraction={config.heldout_fraction} is not above 0 and at most 0.5."
        )
    if config.num_workers < 1:
        raise InputError(f"--num_workers={config.num_workers} is not at least 1.")
    if config.max_documents < 0:
        raise InputError(f"--max_documents={config.max_documents} is negative; 0 means all.")
    folder = config.output_dir
    if not gfile.exists(folder) or (gfile.isdir(folder) and not gfile.listdir(folder)):
        return
    if not config.overwrite:
        raise InputError(f"{folder} exists already. Name another folder or pass --overwrite.")
    if not gfile.exists(os.path.join(folder, STATS)):
        raise InputError(
            f"{folder} holds no {STATS}, so it is not sample data and is not deleted. "
            "Name another folder."
        )


def harvest(config: SampleDataConfig) -> list[Document]:
    """The documentation, library after library, no two documents alike."""
    sources = documentation.sources(documentation.LABELS if config.max_documents else ())
    if config.max_documents:
        sources = _interleaved(sources, config.seed)
    limit = config.max_documents or None
    found: dict[Any, Document] = {}
    with (
        Progress("reading source files", None if limit else len(sources), "files") as progress,
        closing(documentation.harvest(sources, config.num_workers)) as chunks,
    ):
        for count, documents in chunks:
            for document in documents:
                found.setdefault(document.paragraphs, document)
            progress.update(count, f"{len(found):,} documents")
            if limit and len(found) >= limit:
                break
    return list(itertools.islice(found.values(), limit))


def _interleaved(sources: Iterable[Source], seed: int) -> list[Source]:
    """A random order that takes the libraries in turn, so that any beginning has all of them."""
    by_library: dict[str, list[Source]] = {}
    for source in sources:
        by_library.setdefault(source.library, []).append(source)
    for library, its_sources in by_library.items():
        random.Random(f"{seed} {library}").shuffle(its_sources)
    turns = itertools.zip_longest(*by_library.values())
    return [source for turn in turns for source in turn if source is not None]


def _texts(documents: Sequence[Document]) -> list[Text]:
    """Documents as clean sentences, without what many of them say alike."""
    found: dict[Any, Text] = {}
    with Progress("splitting sentences", len(documents), "documents") as progress:
        for start in range(0, len(documents), 2000):
            batch = documents[start : start + 2000]
            for text in sentences.split(batch):
                found.setdefault(tuple(s.text for s in text.sentences), text)
            progress.update(len(batch))
    return split.without_boilerplate(list(found.values()))


def corpus(by_part: dict[str, list[Text]]) -> dict[str, str]:
    """The files for pretraining: one sentence a line, a blank line after each document."""
    heldout = by_part["dev"] + by_part["test"]
    return {
        f"corpus/{name}.txt": "".join(
            "".join(f"{sentence.text}\n" for sentence in text.sentences) + "\n" for text in texts
        )
        for name, texts in (("train", by_part["train"]), ("heldout", heldout))
    }


def labelled(by_part: dict[str, list[Text]], seed: int) -> dict[str, str]:
    """The files of all labelled sets."""
    found = {}
    for part, texts in by_part.items():
        rows = sentence_sets.classification(texts, _CLASSIFICATION_PER_LABEL[part], seed)
        found[f"classification/{part}.tsv"] = _tsv([("sentence", "label"), *rows])
    return found


def _tsv(rows: Iterable[Sequence[str]]) -> str:
    """Tab-separated values as the official readers take them: unquoted."""
    return "".join("\t".join(row) + "\n" for row in rows)


def _check_filled(contents: dict[str, str], config: SampleDataConfig) -> None:
    empty = [name for name, content in contents.items() if content.count("\n") < 2]
    if empty:
        raise InputError(
            f"There is not enough documentation to fill {empty[0]}. "
            f"Raise --max_documents={config.max_documents} (0 means all) or --heldout_fraction."
        )


def statistics(
    config: SampleDataConfig, by_part: dict[str, list[Text]], contents: dict[str, str]
) -> dict[str, Any]:
    """Counts, versions and the SHA-256 of each file."""
    versions, missing = documentation.versions()
    return {
        "settings": {
            "max_documents": config.max_documents,
            "heldout_fraction": config.heldout_fraction,
            "seed": config.seed,
        },
        "versions": versions,
        "missing": missing,
        "parts": {part: _count(texts) for part, texts in by_part.items()},
        "libraries": {
            library: _count(
                [t for texts in by_part.values() for t in texts if t.library == library]
            )
            for library in versions
        },
        "files": {
            name: {
                "bytes": len(content.encode()),
                "lines": content.count("\n"),
                "sha256": files.sha256(content.encode()),
            }
            for name, content in contents.items()
        },
    }


def _count(texts: Sequence[Text]) -> dict[str, int]:
    return {
        "documents": len(texts),
        "sentences": sum(len(text.sentences) for text in texts),
        "words": sum(len(s.text.split()) for text in texts for s in text.sentences),
    }
