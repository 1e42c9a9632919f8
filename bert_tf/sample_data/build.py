"""Builds the sample data: a corpus, a classification set, and statistics of both."""

import dataclasses
import itertools
import os
import pathlib
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from bert_tf.config_fields import documented, option
from bert_tf.errors import InputError, check_at_least, check_between
from bert_tf.sample_data import documentation, sentences, splits
from bert_tf.sample_data.classification_set import (
    CLASSIFICATION_COLUMNS,
    classification_rows,
)
from bert_tf.sample_data.cleaning import Document
from bert_tf.storage import files, json_files
from bert_tf.storage.overwrite_rule import first_foreign
from bert_tf.storage.paths import check_output_folder

STATS = "stats.json"
# The maximum number of passages of each label.
_MAX_PER_LABEL = {"train": 2_000, "dev": 200, "test": 200}
README = pathlib.Path(__file__).parent / "README.txt"


@documented
@dataclasses.dataclass(frozen=True)
class SampleDataConfig:
    """The settings of the program that makes the sample data."""

    output_dir: str = option(dataclasses.MISSING, "The folder to write.", is_path=True)
    max_documents: int = option(
        0,
        "The maximum number of docstrings to read. 0 means all docstrings of all "
        "libraries. A positive limit makes the run shorter. The run then reads only "
        "the six libraries of the classification set.",
    )
    heldout_fraction: float = option(
        0.1,
        "The share of the text that is held out from training, in [0.001, 0.5]. One "
        "half is for the dev sets, the other half for the test sets. The held-out "
        "corpus contains both halves.",
    )
    seed: int = option(
        12345, "Seed of the train/dev/test split and of the selection of examples."
    )
    num_workers: int = option(
        2,
        "The number of processes that read source files. The sample data does not "
        "depend on this number.",
    )
    overwrite: bool = option(
        False, "Whether to replace existing sample data in the folder."
    )


class OutputFile(NamedTuple):
    """An output file: its path in the folder, its text, and statistics of the text.

    The first entry of `counts` is 0 only if the file has no data.
    """

    name: str
    content: str
    counts: dict[str, int]


def build_sample_data(config: SampleDataConfig) -> dict[str, Any]:
    """Writes the sample data atomically, and returns the content of `stats.json`."""
    _check_config(config)

    # With a limit, the same number of files of each library is read.
    source_files = documentation.list_source_files()
    limit = config.max_documents
    if limit:
        source_files = _interleave_libraries(source_files, config.seed)

    docstrings = documentation.read_docstrings(source_files, limit, config.num_workers)
    documents = _clean_documents(docstrings)

    parts = splits.assign_parts(documents, config.heldout_fraction, config.seed)
    by_part: dict[str, list[Document]] = {part: [] for part in splits.PARTS}
    for document, part in zip(documents, parts, strict=True):
        by_part[part].append(document)

    readme = README.read_text("utf-8")
    outputs = [OutputFile("README.txt", readme, {"lines": readme.count("\n")})]
    for output in _data_files(by_part, config.seed):
        if not next(iter(output.counts.values())):
            raise InputError(
                f"There is not enough documentation to fill {output.name} with "
                f"max_documents={config.max_documents} (0 means all) and "
                f"heldout_fraction={config.heldout_fraction}. Increase one of them."
            )
        outputs.append(output)

    stats = {
        "settings": {
            n: getattr(config, n) for n in ("max_documents", "heldout_fraction", "seed")
        },
        "versions": documentation.library_versions(),
        "parts": {part: _counts(documents) for part, documents in by_part.items()},
        "files": {
            name: {
                **counts,
                "bytes": len(text.encode()),
                "sha256": files.sha256(text.encode()),
            }
            for name, text, counts in outputs
        },
    }

    with files.atomic_folder(config.output_dir.rstrip("/"), STATS) as folder:
        for name, text, _ in outputs:
            files.write_text(os.path.join(folder, name), text)
        files.write_json(os.path.join(folder, STATS), stats)
    return stats


def _check_config(config: SampleDataConfig) -> None:
    check_between(0.001, 0.5, config, "heldout_fraction")
    check_between(1, 256, config, "num_workers")
    check_at_least(0, config, "max_documents")
    folder = config.output_dir
    check_output_folder(folder, STATS)
    if not files.list_folder(folder):
        return
    if not config.overwrite:
        raise InputError(
            f"The output folder {folder} already exists. Give another output_dir or "
            "overwrite=True."
        )

    # A folder is replaced only if all its files are those of earlier sample data.
    stats = os.path.join(folder, STATS)
    known = (
        {STATS, *json_files.read(stats).get("files", ())}
        if files.exists(stats)
        else set()
    )
    foreign = first_foreign(folder, lambda name: name.endswith("/") or name in known)
    if "corpus/train.txt" not in known or foreign:
        raise InputError(
            f"{folder} is not deleted, because it has files that are not sample data "
            f"or has no {STATS}. Give another output_dir."
        )


def _interleave_libraries(
    source_files: list[documentation.SourceFile], seed: int
) -> list[documentation.SourceFile]:
    """Returns the files of the classified libraries, shuffled, one of each library in turn."""
    files_ = random.Random(seed).sample(source_files, len(source_files))
    by_library = (
        [f for f in files_ if f.library == library] for library in documentation.LABELS
    )
    rounds = itertools.zip_longest(*by_library)
    return [file for file in itertools.chain(*rounds) if file]


def _clean_documents(docstrings: Sequence[Document]) -> list[Document]:
    """Splits docstrings into sentences; removes duplicates and boilerplate sentences."""
    distinct: dict[Any, Document] = {}
    for document in sentences.split_into_sentences(docstrings):
        distinct.setdefault(tuple(s.text for s in document.texts), document)
    return splits.remove_boilerplate(list(distinct.values()))


def _data_files(by_part: dict[str, list[Document]], seed: int) -> Iterator[OutputFile]:
    """Yields the files of the corpus and of the classification set."""
    heldout = by_part["dev"] + by_part["test"]
    for name, documents in (("train", by_part["train"]), ("heldout", heldout)):
        yield OutputFile(
            f"corpus/{name}.txt", _corpus_text(documents), _counts(documents)
        )
    for part, documents in by_part.items():
        rows = classification_rows(documents, _MAX_PER_LABEL[part], seed)
        # The format of GLUE's files: separated by tabs, without quotes.
        lines = ("\t".join(row) + "\n" for row in [CLASSIFICATION_COLUMNS, *rows])
        counts = {
            "examples": len(rows),
            **Counter(f"label {label}" for _, label in rows),
        }
        yield OutputFile(f"classification/{part}.tsv", "".join(lines), counts)


def _corpus_text(documents: Sequence[Document]) -> str:
    """Returns one sentence per line, and a blank line after each document."""
    return "".join(
        "".join(f"{s.text}\n" for s in document.texts) + "\n" for document in documents
    )


def _counts(documents: Sequence[Document]) -> dict[str, int]:
    return {
        "documents": len(documents),
        "sentences": sum(len(document.texts) for document in documents),
        "words": sum(
            len(s.text.split()) for document in documents for s in document.texts
        ),
    }
