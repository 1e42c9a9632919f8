"""Builds the sample data: the corpus, the labelled sets and the count of everything.

Imports the parts beside it and `bert_tf.errors`, `files`, `progress`.
"""

import csv
import io
import itertools
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from bert_tf import files
from bert_tf.errors import InputError
from bert_tf.progress import Progress
from data_prep.sample_data import documentation, sentence_sets, sentences, span_sets, split
from data_prep.sample_data.documentation import Document, Source
from data_prep.sample_data.sentences import Text

STATS = "stats.json"
# Examples of each labelled set.
_LIMITS = {"train": 12_000, "dev": 1_200, "test": 1_200}
README = """\
Sample data for BERT, made by data_prep/make_sample_data.py of bert-tf from the docstrings of the
Python standard library and of installed packages; stats.json names them and their versions. The
text belongs to their authors and keeps their licences. The labels are not from people: they follow
from where a text stood, as told below. Good for trying things out and for tests; a score here says
nothing about English at large.

All text    One docstring is one document. Code, tables, formulas, addresses and markup are gone,
            and so are sentences that do not read as English or that many documents share. Every
            argument's description begins with the argument's name and a colon.
The split   Documents that share any eight words in a row, directly or over others, are in the same
            part: train, dev or test. The held-out corpus is dev and test. Every set below is made
            of documents of its part only.

corpus/train.txt, heldout.txt
            One sentence a line, a blank line after each document.
classification/{train,dev,test}.tsv
            sentence, label. Up to three sentences in a row, none of which names one of the
            libraries; the label is the library.
pairs/{train,dev,test}.tsv
            The columns of MRPC. Quality 1: both strings are from one entry; 0: from two entries of
            the same library. An ID stands for a string.
squad/{train,dev}-v1.1.json, {train,dev}-v2.0.json
            The JSON of SQuAD. A question asks what an argument means; the answer is the first
            sentence of its description. Unanswerable (v2.0 only): an argument that other entries
            have and this document does not mention; the plausible answer describes another one.
            dev is of the parts dev and test.
swag/{train,val,test}.csv
            The columns of SWAG. Which ending belongs to a sentence that begins with sent2 and
            follows sent1; the other three are ends of sentences that begin alike in other
            documents of the same library. test.csv has its labels too.
ner/{train,dev,test}.conll
            The columns of CoNLL-2003: word, part of speech, chunk, tag; the middle two are unknown
            ("-"). CODE are words that stood between backquotes or in a code role; the quotes are
            gone. A word that its author did not mark is O, even if it is code.
"""


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


@dataclass(frozen=True)
class Output:
    """One file to write.

    Attributes:
        content: All of it.
        counts: What it holds; the first figure is the number of examples.
    """

    content: str
    counts: dict[str, int]


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
    outputs = {**corpus(by_part), **labelled(by_part, config.seed)}
    _check_filled(outputs, config)
    outputs["README.txt"] = Output(README, {"lines": README.count("\n")})
    stats = statistics(config, by_part, outputs)
    with files.atomic_replace(config.output_dir.rstrip("/")) as folder:
        for name, output in outputs.items():
            files.write_text(os.path.join(folder, name), output.content)
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


def corpus(by_part: dict[str, list[Text]]) -> dict[str, Output]:
    """The files for pretraining: one sentence a line, a blank line after each document."""
    heldout = by_part["dev"] + by_part["test"]
    return {
        f"corpus/{name}.txt": Output(
            "".join("".join(f"{s.text}\n" for s in text.sentences) + "\n" for text in texts),
            {"documents": len(texts), "sentences": sum(len(text.sentences) for text in texts)},
        )
        for name, texts in (("train", by_part["train"]), ("heldout", heldout))
    }


def labelled(by_part: dict[str, list[Text]], seed: int) -> dict[str, Output]:
    """The files of all labelled sets."""
    found: dict[str, Output] = {}
    for part, texts in by_part.items():
        limit = _LIMITS[part]
        rows = sentence_sets.classification(texts, limit // 6, seed)
        found[f"classification/{part}.tsv"] = _table(sentence_sets.CLASSIFICATION_COLUMNS, rows, -1)
        rows = sentence_sets.pairs(texts, limit, seed)
        found[f"pairs/{part}.tsv"] = _table(sentence_sets.PAIR_COLUMNS, rows, 0)
        rows = sentence_sets.continuations(texts, limit, seed)
        name = "val" if part == "dev" else part
        found[f"swag/{name}.csv"] = _table(sentence_sets.CHOICE_COLUMNS, rows, -1, _csv)
        tagged = span_sets.tagged(texts, limit, seed)
        counts = {"sentences": sum(map(len, tagged)), **span_sets.tag_counts(tagged)}
        found[f"ner/{part}.conll"] = Output(span_sets.conll(tagged), counts)
    for part, texts in (("train", by_part["train"]), ("dev", by_part["dev"] + by_part["test"])):
        asked = span_sets.questions(texts, _LIMITS[part], seed)
        impossible = sum(each.is_impossible for each in asked)
        answerable = {"questions": len(asked) - impossible}
        found[f"squad/{part}-v1.1.json"] = Output(_json(span_sets.squad(asked, "1.1")), answerable)
        counts = {"questions": len(asked), "unanswerable": impossible}
        found[f"squad/{part}-v2.0.json"] = Output(_json(span_sets.squad(asked, "v2.0")), counts)
    return dict(sorted(found.items()))


def _table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    label_column: int,
    write: Callable[[Iterable[Sequence[str]]], str] | None = None,
) -> Output:
    labels = Counter(row[label_column] for row in rows)
    counts = {"examples": len(rows), **{f"label {each}": labels[each] for each in sorted(labels)}}
    return Output((write or _tsv)([columns, *rows]), counts)


def _tsv(rows: Iterable[Sequence[str]]) -> str:
    """Tab-separated values as in GLUE: nothing is quoted."""
    return "".join("\t".join(row) + "\n" for row in rows)


def _csv(rows: Iterable[Sequence[str]]) -> str:
    """Comma-separated values as in SWAG: quoted where needed."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


def _check_filled(outputs: dict[str, Output], config: SampleDataConfig) -> None:
    for name, output in outputs.items():
        if not next(iter(output.counts.values())):
            raise InputError(
                f"There is not enough documentation to fill {name} with --max_documents="
                f"{config.max_documents} (0 means all) and --heldout_fraction="
                f"{config.heldout_fraction}. Raise one of them."
            )


def statistics(
    config: SampleDataConfig, by_part: dict[str, list[Text]], outputs: dict[str, Output]
) -> dict[str, Any]:
    """Counts, versions and the SHA-256 of each file."""
    versions, missing = documentation.versions()
    everything = [text for texts in by_part.values() for text in texts]
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
            library: _count([text for text in everything if text.library == library])
            for library in versions
        },
        "files": {
            name: {
                **output.counts,
                "bytes": len(output.content.encode()),
                "sha256": files.sha256(output.content.encode()),
            }
            for name, output in outputs.items()
        },
    }


def _count(texts: Sequence[Text]) -> dict[str, int]:
    return {
        "documents": len(texts),
        "sentences": sum(len(text.sentences) for text in texts),
        "words": sum(len(s.text.split()) for text in texts for s in text.sentences),
    }
