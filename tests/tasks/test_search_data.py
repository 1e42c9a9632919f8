"""Reading of search data: folders in the form of BEIR, and tables of pairs."""

import gzip

import pytest
from reading import Refused, check, refused, write
from tables_of_rows import write_rows

from bert_tf.tasks.embedding.search_data import (
    UNKNOWN_DOCUMENT,
    UNKNOWN_QUERY,
    SearchText,
    find_source,
)
from bert_tf.tasks.embedding.text_rows import EMPTY
from bert_tf.tasks.splits import DataLocation, RowCounts

PAIR = ("text_a", "text_b")
CORPUS = (
    '{"_id": "d1", "title": "Cats", "text": "They purr.", "metadata": {}}\n'
    '{"_id": 2, "title": "", "text": "Dogs bark."}\n'
    '{"_id": "q1", "text": "é"}\n'
)
QUERIES = (
    '{"_id": "q0", "text": "not judged"}\n'
    '{"_id": "q1", "text": "purr?", "title": "no"}\n{"_id": 7, "text": "bark?"}\n'
)
HEADER = "query-id\tcorpus-id\tscore\n"
QRELS = f"{HEADER}7\t2\t1\nq1\td1\t2\nq1\t2\t0\n"
DOCUMENTS = [
    SearchText("d1", "Cats They purr."),
    SearchText("2", "Dogs bark."),
    SearchText("q1", "é"),
]
FOUND = [
    SearchText("q1", "purr?", {"d1": 2, "2": 0}),
    SearchText("7", "bark?", {"2": 1}),
]
BEIR = [*DOCUMENTS, *FOUND]


def folder(path, corpus=CORPUS, queries=QUERIES, qrels=QRELS, name="dev.tsv"):
    for file, content in (
        ("corpus.jsonl", corpus),
        ("queries.jsonl", queries),
        (f"qrels/{name}", qrels),
    ):
        write(path / file, content)
    return str(path)


def read(data_dir, kind="dev", counts=None, max_queries=0, **location):
    source = find_source(kind, DataLocation(data_dir=data_dir, **location), PAIR)
    return list(source.examples(RowCounts() if counts is None else counts, max_queries))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("train", "train.tsv"),
        ("dev", "dev.tsv"),
        ("dev", "validation.tsv"),
        ("test", "test.tsv"),
    ],
)
def test_a_folder_gives_documents_and_then_judged_queries(tmp_path, kind, name):
    path = folder(tmp_path, name=name)
    assert read(path, kind) == BEIR
    explicit = f"{path}/qrels/{name}"
    assert read(None, kind, **{f"{kind}_file": explicit}) == BEIR
    other = "test" if kind != "test" else "dev"
    check(lambda each: read(each, other), path, refused("no file qrels/", other))


# What the judgements are, and the queries that are read from them.
JUDGEMENTS = [
    (f"\ufeff{QRELS}".replace("\n", "\r\n").strip(), FOUND),
    ("7 0 2 1\nq1\tQ0\td1\t2\nq1 0 2 0", FOUND),
    (f"{QRELS}\n \n".replace(HEADER, "").replace("\t2\n", "\t2.0\n"), FOUND),
    ("7\t2\t-1\n7\td1\t1", [SearchText("7", "bark?", {"2": -1, "d1": 1})]),
    ("7\t2\t-1", refused("No query of", "has a relevant document", "above 0")),
    ("", refused("No query that", "no judgement", "queries.jsonl")),
    (HEADER, refused("no judgement")),
    ("q9\td1\t1", refused("No query that", "'q9'", "_id of queries")),
    ("q1\td9\t1", refused("No document that", "'d9'", "_id of documents")),
    ("q1\td1", refused("dev.tsv, line 1", "separated by tabs", "'q1\\td1'")),
    ("q1\td1\t0.5", refused("line 1", "whole number")),
    ("qid\tpid\trel\nq1\td1\t1", refused("line 1", HEADER.replace("\t", " ").strip())),
    ("q1 Q0 d1 1 0.7 run", refused("line 1")),
    ('{"q1": {"d1": 1}}', refused("line 1")),
]


@pytest.mark.parametrize(("content", "expected"), JUDGEMENTS)
def test_judgements(tmp_path, content, expected):
    path = folder(tmp_path, qrels=content)
    if not isinstance(expected, Refused):
        expected = [*DOCUMENTS, *expected]
    check(read, path, expected)


TEXTS = [
    ("corpus", CORPUS.strip().encode("utf-8-sig").replace(b"\n", b"\r\n"), BEIR),
    ("corpus", gzip.compress(CORPUS.encode()), BEIR),
    (
        "corpus",
        CORPUS + '{"_id": "2", "text": ""}',
        refused("corpus.jsonl, line 4", "'2'"),
    ),
    ("queries", QUERIES * 2, refused("queries.jsonl, line 4", "same _id, 'q0'")),
    ("corpus", '{"id": "1", "text": ""}', refused("line 1 has no column '_id'")),
    ("corpus", '{"_id": "1", "contents": ""}', refused("no column 'text'")),
    ("corpus", '{"_id": true, "text": ""}', refused("line 1: _id must", "True")),
    ("corpus", '{"_id": 1.5, "text": ""}', refused("line 1: _id must", "1.5")),
    ("corpus", '{"_id": "1", "text": null}', refused("line 1: text must", "None")),
    ("corpus", '{"_id": 1, "text": "", "title": 3}', refused("line 1: title must")),
    ("corpus", "[{", refused("corpus.jsonl is a JSON array")),
    ("queries", "id,text\n", refused("queries.jsonl, line 1 is not JSON")),
]


@pytest.mark.parametrize(("name", "content", "expected"), TEXTS)
def test_corpora_and_queries(tmp_path, name, content, expected):
    check(read, folder(tmp_path, **{name: content}), expected)


def test_unknown_ids_are_counted(tmp_path):
    qrels = f"{QRELS}q1\td8\t1\nq8\td1\t1\nq8\td8\t1\n"
    counts = RowCounts()
    assert read(folder(tmp_path, qrels=qrels), counts=counts) == BEIR
    assert counts == {UNKNOWN_DOCUMENT: 1, UNKNOWN_QUERY: 2}
    assert "'q1', document 'd8'" in counts.notes["first"][1]
    # A query without a known document is not read.
    path = folder(tmp_path, qrels="7\td8\t1\nq1\td1\t1\n")
    assert read(path)[3:] == [SearchText("q1", "purr?", {"d1": 1})]


def test_missing_files(tmp_path):
    path = folder(tmp_path)
    (tmp_path / "corpus.jsonl").rename(tmp_path / "corpus.jsonl.gz")
    assert read(path) == BEIR
    (tmp_path / "queries.jsonl").unlink()
    check(read, path, refused("queries.jsonl. Search data is a folder with"))
    (tmp_path / "qrels" / "dev.tsv").unlink()
    (tmp_path / "qrels").rmdir()
    write(tmp_path / "corpus.jsonl", CORPUS)
    check(read, path, refused("no file qrels/dev.tsv"))


def test_the_fingerprint_covers_all_files_and_the_sample(tmp_path):
    def fingerprint(**files):
        path = folder(tmp_path, **files)
        return find_source("dev", DataLocation(data_dir=path), PAIR).fingerprint()

    prints = {
        fingerprint(),
        fingerprint(corpus=f"{CORPUS} "),
        fingerprint(queries=f"{QUERIES} "),
        fingerprint(qrels=f"{QRELS} "),
    }
    folder(tmp_path)
    source = find_source("dev", DataLocation(data_dir=str(tmp_path)), PAIR)
    prints |= {source.sampled(*each).fingerprint() for each in ((0, 1), (1, 1), (0, 2))}
    assert len(prints) == 7
    assert source.fingerprint() in prints


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_pairs_give_distinct_texts(tmp_path, ending):
    pairs = [("a", "x"), ("b", "y"), ("a", "y"), ("c", "a"), ("a", "x")]
    rows = [{"text_b": b, "more": "1", "text_a": a} for a, b in pairs]
    write_rows(tmp_path / f"validation.{ending}", rows)
    first = 1 if ending in ("jsonl", "parquet") else 2  # after the header line
    d1, d2, d4 = (f"d{first + row}" for row in (0, 1, 3))
    assert read(str(tmp_path)) == [
        SearchText(d1, "x"),
        SearchText(d2, "y"),
        SearchText(d4, "a"),
        SearchText(f"q{first}", "a", {d1: 1, d2: 1}),
        SearchText(f"q{first + 1}", "b", {d2: 1}),
        SearchText(f"q{first + 3}", "c", {d4: 1}),
    ]


def test_rows_without_text_and_of_other_parts_are_left_out(tmp_path):
    lines = [f"{n}\t{n} {n}" for n in range(50)]
    write(tmp_path / "train.tsv", "\n".join(["q\ta", "x\t ", *lines]) + "\n")
    counts, pair = RowCounts(), ("q", "a")
    path = str(tmp_path / "train.tsv")
    parts = {}
    for kind, share in (("dev", 0.4), ("train", 0.4), ("train", 0.0)):
        location = DataLocation(train_file=path, eval_fraction=share)
        source = find_source(kind, location, pair)
        texts = source.examples(counts)
        parts[kind, share] = {each.text for each in texts if each.relevance}
    assert counts == {EMPTY: 3}
    assert not parts["dev", 0.4] & parts["train", 0.4]
    assert parts["dev", 0.4] | parts["train", 0.4] == parts["train", 0.0]
    assert len(parts["train", 0.0]) == 50 and parts["dev", 0.4]


def test_other_tables_are_refused(tmp_path):
    path = write(tmp_path / "dev.tsv", QRELS)
    check(read, str(tmp_path), refused("no column 'text_a' (text_a_column)"))
    write(tmp_path / "dev.tsv", "")
    check(lambda each: read(None, dev_file=each), path, refused("is empty"))
    (tmp_path / "dev.tsv").unlink()
    write(tmp_path / "dev.jsonl", '{"text_a": "a", "text_b": ["b"]}')
    check(read, str(tmp_path), refused("dev.jsonl, line 1: 'text_b'", "list"))


def many(path):
    """Writes a folder with 100 queries, of which each third has no relevant document."""
    numbers = range(100)
    return folder(
        path,
        corpus="".join(f'{{"_id": "d{n}", "text": "{n}"}}\n' for n in numbers),
        queries="".join(f'{{"_id": "q{n}", "text": "{n}"}}\n' for n in numbers),
        qrels="".join(
            f"q{n}\td{n}\t{n % 3}\nq{n}\td{99 - n}\t0\n" for n in reversed(numbers)
        ),
    )


def test_a_limit_cuts_the_queries_and_not_the_corpus(tmp_path):
    path = many(tmp_path)
    examples = read(path, max_queries=3)
    assert [example.id for example in examples[100:]] == ["q0", "q1", "q2"]
    assert examples == read(path)[:103]


def test_a_sample_is_read_again_for_another_run(tmp_path):
    location = DataLocation(data_dir=many(tmp_path))
    first, second = (find_source("dev", location, PAIR).sampled(0, 5) for _ in range(2))
    found = list(first.examples(RowCounts()))
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(corpus.read_text().replace('"text": "', '"text": "new '))
    # The texts of a run stay the same, and the next run reads the file.
    assert list(first.examples(RowCounts())) == found
    changed = list(second.examples(RowCounts()))
    assert [each.id for each in changed] == [each.id for each in found]
    assert changed[0].text == f"new {found[0].text}"


def test_a_sample_has_the_documents_of_its_queries(tmp_path):
    source = find_source("dev", DataLocation(data_dir=many(tmp_path)), PAIR)
    everything = list(source.examples(RowCounts()))
    for seed in range(3):
        counts = RowCounts()
        sample = list(source.sampled(seed, 10).examples(counts))
        assert sample == list(source.sampled(seed, 10).examples(RowCounts()))
        documents, queries = sample[:10], sample[10:]
        numbers = [int(query.id[1:]) for query in queries]
        assert len({*numbers}) == 10
        assert all(number % 3 for number in numbers)
        assert [document.id for document in documents] == [
            f"d{n}" for n in sorted(numbers)
        ]
        assert all(example in everything for example in sample) and not counts
    assert list(source.sampled(0, 10).examples(counts)) != sample
    assert len(list(source.sampled(0, 1000).examples(counts))) == 2 * 66
    assert len(list(source.sampled(0, 1000).examples(counts, max_queries=3))) == 2 * 2
