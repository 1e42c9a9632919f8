"""Reads search data: folders in the form of BEIR, and tables of pairs of texts."""

import dataclasses
import functools
import os
import re
from collections.abc import Iterator, Mapping

from bert_tf.errors import InputError
from bert_tf.storage import files
from bert_tf.tasks import tables
from bert_tf.tasks.embedding.text_rows import EMPTY, cells, is_in_part
from bert_tf.tasks.splits import (
    SPLIT_NAMES,
    DataLocation,
    FileSource,
    RowCounts,
    share_of,
)
from bert_tf.tasks.tables import TableFormat, place_of
from bert_tf.tasks.values import text_of

UNKNOWN_QUERY = "judgements of unknown queries ignored"
UNKNOWN_DOCUMENT = "judgements of unknown documents ignored"
_CORPUS, _QUERIES, _JUDGEMENTS = "corpus.jsonl", "queries.jsonl", "qrels"
_HEADER = ["query-id", "corpus-id", "score"]
_RELEVANCE = re.compile(r"(-?[0-9]{1,9})(\.0+)?")
_FOLDER = f"a folder with {_CORPUS}, {_QUERIES} and the folder {_JUDGEMENTS}"
_Texts = Iterator[tuple[str, str]]  # ids and texts
_Judgements = dict[str, dict[str, int]]  # relevance by query id and document id


@dataclasses.dataclass(frozen=True, slots=True)
class SearchText:
    """A document or a query.

    `relevance` is None for a document. A query has the relevance of the judged
    documents, by id; those with a relevance above 0 should be found.
    """

    id: str
    text: str
    relevance: Mapping[str, int] | None = None


@dataclasses.dataclass(frozen=True)
class SearchSource:
    """A corpus, queries and judgements as the source of a split.

    Attributes:
        name: The path of the judgements, or of a table of pairs.
        folder: The folder of the corpus and the queries, if `name` has judgements; None
            for a table of pairs.
        columns: The columns of the first and the second texts of the table.
        part: The rows of the table that are read, by their first texts: a range [first,
            last) of `share_of`; None for all.
        table_format: The form of the table.
        sample: The seed and the number of queries of a sample; see `sampled`.
    """

    name: str
    folder: str | None = None
    columns: tuple[str, str] = ("text_a", "text_b")
    part: tuple[float, float] | None = None
    table_format: TableFormat = TableFormat()  # noqa: RUF009 it is immutable
    sample: tuple[int, int] | None = None

    def sampled(self, seed: int, num_queries: int) -> "SearchSource":
        """Returns a smaller source, for evaluations during training.

        It has a random sample of the queries with a relevant document, and only the
        documents that are relevant to them. Equal seeds give equal samples.
        """
        return dataclasses.replace(self, sample=(seed, num_queries))

    def fingerprint(self) -> str:
        """Returns text that identifies what is read: the SHA-256 of all files, and the sample."""
        paths = [self.name]
        if self.folder is not None:
            paths += [_existing(self.folder, name) for name in (_CORPUS, _QUERIES)]
        selection = self.columns if self.folder is None else ()
        sources = [
            FileSource(path, selection, self.part, self.table_format) for path in paths
        ]
        text = ", ".join(source.fingerprint() for source in sources)
        return f"{text} sample {self.sample}" if self.sample else text

    def examples(self, counts: RowCounts, max_queries: int = 0) -> Iterator[SearchText]:
        """Returns all documents, then the queries that have judgements.

        The texts of a corpus are not held in memory, but its ids are. A table of pairs
        is held in memory. Judgements of unknown queries or documents are ignored.

        Args:
            counts: Receives the number of ignored judgements.
            max_queries: Use only the first queries; 0 means all. The corpus remains
                complete, unless there is a `sample`.

        Raises:
            InputError: A file is missing or malformed, two texts of a file have the
                same id, or no query or no document of the judgements is known.
        """
        if not self.sample:
            return self._read(counts, max_queries)
        # Evaluations do not read the corpus again.
        if max_queries not in self._samples:
            self._samples[max_queries] = tuple(self._read(RowCounts(), max_queries))
        return iter(self._samples[max_queries])

    @functools.cached_property
    def _samples(self) -> dict[int, tuple[SearchText, ...]]:
        """The texts of the sample that were read, by the maximum number of queries."""
        return {}

    def _read(self, counts: RowCounts, max_queries: int) -> Iterator[SearchText]:
        if self.folder is None:
            documents, queries, judgements = _read_pairs(self, counts)
        else:
            documents = _read_texts(_existing(self.folder, _CORPUS), with_title=True)
            judgements = _read_judgements(self.name)
            queries = _judged_queries(self, judgements, counts)

        # A hash selects the sample, so that a further query changes little of it.
        chosen = [*queries][: max_queries or None]
        if self.sample:
            seed, num_queries = self.sample
            chosen = [name for name in chosen if max(judgements[name].values()) > 0]
            chosen.sort(key=functools.partial(share_of, seed))
            del chosen[num_queries:]

        judged = [pair for name in chosen for pair in judgements[name].items()]
        relevant = {name for name, relevance in judged if relevance > 0}
        if not relevant:
            raise InputError(
                f"No query of {self.name} has a relevant document, so there is nothing "
                "to find. Write a relevance above 0 for the documents to find."
            )
        unknown = {name for name, _ in judged}
        num_judged = len(unknown)
        for name, text in documents:
            unknown.discard(name)
            if not self.sample or name in relevant:
                yield SearchText(name, text)

        if unknown and len(unknown) == num_judged:
            raise InputError(
                f"No document that {self.name} names is in {self.folder}/{_CORPUS}. "
                f"Received: {judged[0][0]!r:.60}. Write the _id of "
                "documents in the second column, or give files of one data set."
            )
        for query in chosen:
            known = {}
            for name, relevance in judgements[query].items():
                if name in unknown:
                    row = f"{self.name}, query {query!r:.60}, document {name!r:.60}"
                    counts.add(UNKNOWN_DOCUMENT, row)
                else:
                    known[name] = relevance
            if known:
                yield SearchText(query, queries[query], known)


def find_source(
    kind: str, location: DataLocation, columns: tuple[str, str]
) -> SearchSource:
    """Returns the search data of a kind of split.

    `data_dir` is a folder in the form of BEIR, with `corpus.jsonl`, `queries.jsonl` and
    files such as `qrels/dev.tsv`, or has tables of pairs, such as `dev.jsonl`. An
    explicit file is a table of pairs, or judgements in the folder `qrels` of a folder
    in the form of BEIR.

    Args:
        kind: One of `splits.KINDS`.
        location: The location of the data set.
        columns: The columns of the texts of a table.

    Raises:
        InputError: A file is missing, or there are several tables of a kind.
    """
    if is_search_folder(kind, location) and not location.explicit_file(kind):
        names = [f"{_JUDGEMENTS}/{name}.tsv" for name in SPLIT_NAMES[kind]]
        path = location.find_file(kind, names)
    else:
        path = location.find_table("train" if location.part(kind) else kind)

    parent = os.path.dirname(path)
    if os.path.basename(parent) != _JUDGEMENTS:
        return SearchSource(
            path,
            columns=columns,
            part=location.part(kind),
            table_format=location.table_format,
        )
    return SearchSource(path, os.path.dirname(parent))


def is_search_folder(kind: str, location: DataLocation) -> bool:
    """Returns whether a split is in a folder in the form of BEIR."""
    if explicit := location.explicit_file(kind):
        return os.path.basename(os.path.dirname(explicit)) == _JUDGEMENTS
    folder = location.data_dir
    return bool(folder) and any(
        files.exists(os.path.join(str(folder), name)) for name in (_CORPUS, _JUDGEMENTS)
    )


def _existing(folder: str, name: str) -> str:
    """Returns the path of a file that may be packed with gzip."""
    path = os.path.join(folder, name)
    for candidate in (path, f"{path}.gz"):
        if files.is_file(candidate):
            return candidate
    raise InputError(
        f"There is no file {path}. Search data is {_FOLDER}. Add the file."
    )


def _read_pairs(
    source: SearchSource, counts: RowCounts
) -> tuple[_Texts, dict[str, str], _Judgements]:
    """Returns the distinct second texts, the distinct first texts by id, and the judgements.

    The id of a text is the number of its first row, after "d" or "q".
    """
    parameters = ("text_a_column", "text_b_column")
    rows = cells(source.name, source.columns, (), parameters, source.table_format)
    documents: dict[str, str] = {}
    queries: dict[str, str] = {}
    judgements: _Judgements = {}
    for number, texts in rows:
        place = place_of(source.name, number)
        text_a, text_b = (
            text_of(text, f"{place}: {name!r}")
            for name, text in zip(source.columns, texts, strict=True)
        )
        if not (text_a.strip() and text_b.strip()):
            counts.add(EMPTY, place, is_skipped=True)
            continue
        if not is_in_part(text_a, source.part):
            continue
        query = queries.setdefault(text_a, f"q{number}")
        document = documents.setdefault(text_b, f"d{number}")
        judgements.setdefault(query, {})[document] = 1

    texts_by_id = {name: text for text, name in queries.items()}
    return ((name, text) for text, name in documents.items()), texts_by_id, judgements


def _read_texts(path: str, with_title: bool = False) -> _Texts:
    """Yields the id and the text of each line, after its title if it has one."""
    check = functools.partial(
        tables.check_columns,
        columns=("_id", "text"),
        optional=(),
        parameters=(),
        remedy='Write objects such as {"_id": "1", "text": "A text."}.',
    )
    names = set()
    for number, row in tables.json_lines(path, None, check):
        place = place_of(path, number)
        name = row["_id"]
        if type(name) not in (str, int):
            raise InputError(
                f"{place}: _id must be a text or a whole number. Received: {name!r:.60}. "
                "Give each text an id."
            )
        name = str(name)
        if name in names:
            raise InputError(
                f"{place}: an earlier line has the same _id, {name!r:.60}. Give each "
                "text a different id, or remove the line."
            )
        names.add(name)

        text = _text(row["text"], f"{place}: text")
        title = _text(row.get("title") or "", f"{place}: title") if with_title else ""
        yield name, " ".join(filter(None, (title, text)))


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise InputError(
            f"{place} must be a text. Received: {value!r:.60}. Write it in quotes, or "
            "remove the line."
        )
    return value


def _judged_queries(
    source: SearchSource, judgements: _Judgements, counts: RowCounts
) -> dict[str, str]:
    """Returns the texts of the queries with judgements, by id, in the order of their file."""
    path = _existing(source.folder or "", _QUERIES)
    queries = {name: text for name, text in _read_texts(path) if name in judgements}
    if not queries:
        received = next((f"{name!r:.60}" for name in judgements), "no judgement")
        raise InputError(
            f"No query that {source.name} names is in {path}. Received: "
            f"{received}. Write the _id of queries in the first column, or give files "
            "of one data set."
        )

    for name, documents in judgements.items():
        if name not in queries:
            for _ in documents:
                counts.add(UNKNOWN_QUERY, f"{source.name}, query {name!r:.60}")
    return queries


def _read_judgements(path: str) -> _Judgements:
    """Reads three columns separated by tabs, as in BEIR, or the four columns of TREC."""
    judgements: _Judgements = {}
    for number, line in tables.lines(path, None):
        fields = line.split("\t")
        if not line.strip() or (number == 1 and fields == _HEADER):
            continue

        # TREC separates columns by any white space; its second one is not used.
        if len(fields) != len(_HEADER):
            fields = line.split()
            if len(fields) == len(_HEADER) + 1:
                del fields[1]
        match = _RELEVANCE.fullmatch(fields[-1])
        if len(fields) != len(_HEADER) or not match:
            raise InputError(
                f"{place_of(path, number)} must have the id of a query, the id of a "
                "document and its relevance, a whole number, separated by tabs. "
                f"Received: {line!r:.60}. The first line may be {' '.join(_HEADER)}, "
                "and the four columns of TREC are also read."
            )
        query, document, _ = fields
        judgements.setdefault(query, {})[document] = int(match[1])
    return judgements
