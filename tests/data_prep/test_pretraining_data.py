"""The records: what is in them, against the released rules; what the main does with its input."""

import collections
import hashlib
import itertools
import json
import os
import pathlib
import random
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import features
from bert_tf.errors import InputError
from data_prep.pretraining_data import auditing, reading
from data_prep.pretraining_data.settings import RecordsConfig
from data_prep.runners import local
from data_prep.runners import records as records_reading

ROOT = pathlib.Path(__file__).parents[2]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(300)]
PIECES = ["##x", "##yz", "##q"]
VOCABULARY = [*SPECIAL, *WORDS, *PIECES]
CLS, SEP, MASK = 2, 3, 4


@pytest.fixture
def vocab_file(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    return str(path)


def corpus(documents, seed=0, longest_sentence=25, longest_document=30):
    """Documents of sentences of words; a word has 0 to 2 further pieces."""
    rng = random.Random(seed)
    return [
        [
            [
                rng.choice(WORDS) + "".join(rng.choices(["x", "yz", "q", "", ""], k=2))
                for _ in range(rng.randint(1, longest_sentence))
            ]
            for _ in range(rng.randint(1, longest_document))
        ]
        for _ in range(documents)
    ]


def text_of(documents):
    return "\n\n".join("\n".join(" ".join(s) for s in document) for document in documents) + "\n"


def ids_of(documents, tokenizer):
    return [
        [tokenizer.tokenize([" ".join(s)]).to_list()[0] for s in document] for document in documents
    ]


def parsed(paths, length, predictions, compression=""):
    data = tf.data.TFRecordDataset(paths, compression_type=compression.upper()).batch(1 << 20)
    parse = features.parser(features.PRETRAINING, {"S": length, "P": predictions})
    batches = [parse(batch) for batch in data]
    return {k: np.concatenate([b[k].numpy() for b in batches]) for k in batches[0]}


def make(tmp_path, vocab_file, text, name="out/data.tfrecord", workers=1, **flags):
    source = tmp_path / "corpus.txt"
    source.write_bytes(text if isinstance(text, bytes) else text.encode())
    config = RecordsConfig(vocab_file, **flags)
    outputs = [str(tmp_path / each) for each in name.split(",")]
    return local.create(config, str(source), outputs, workers, False), outputs


def run_main(*arguments):
    command = [sys.executable, str(ROOT / "data_prep/create_pretraining_data.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


# Every record is one that the released rules can make -----------------------------------------


def spans(documents):
    """Every run of tokens of one document, as a look-up from its first two tokens."""
    starts = collections.defaultdict(list)
    for number, document in enumerate(documents):
        flat = [token for sentence in document for token in sentence]
        for i in range(len(flat)):
            starts[flat[i]].append((number, i, flat))
    return starts


def places(part, starts):
    return [(n, i) for n, i, flat in starts[part[0]] if flat[i : i + len(part)] == part]


@pytest.mark.parametrize("whole", [False, True])
def test_each_record_obeys_the_rules(tmp_path, vocab_file, whole):
    documents = corpus(40)
    _, paths = make(
        tmp_path, vocab_file, text_of(documents), do_whole_word_mask=whole, dupe_factor=3
    )
    records = parsed(paths, 128, 20)
    from bert_tf.tokenization import BertTokenizer

    starts = spans(ids_of(documents, BertTokenizer(VOCABULARY)))
    continues = {VOCABULARY.index(piece) for piece in PIECES}
    assert len(records["input_ids"]) > 500
    for i in range(len(records["input_ids"])):
        row = {name: value[i] for name, value in records.items()}
        length = row["input_mask"].sum()
        assert row["input_mask"].tolist() == [1] * length + [0] * (128 - length)
        real = int(row["masked_lm_weights"].sum())
        positions = row["masked_lm_positions"][:real].tolist()
        assert row["masked_lm_weights"].tolist() == [1.0] * real + [0.0] * (20 - real)
        assert positions == sorted(set(positions))
        unmasked = row["input_ids"].tolist()
        for position, token in zip(positions, row["masked_lm_ids"].tolist(), strict=False):
            unmasked[position] = token
        assert not any(unmasked[length:])
        assert not row["masked_lm_positions"][real:].any()
        assert not row["masked_lm_ids"][real:].any()
        separators = [j for j in range(length) if unmasked[j] == SEP]
        assert unmasked[0] == CLS and len(separators) == 2 and separators[1] == length - 1
        assert not {0, *separators} & set(positions)
        first = separators[0]
        expected = [0] * (first + 1) + [1] * (length - first - 1) + [0] * (128 - length)
        assert row["segment_ids"].tolist() == expected
        wanted = min(20, max(1, round(int(length) * 0.15)))
        assert real == wanted or (whole and real < wanted)
        if whole:
            ordinary = [j for j in range(length) if unmasked[j] not in (CLS, SEP)]
            for before, j in itertools.pairwise(ordinary):
                if unmasked[j] in continues:
                    assert (j in positions) == (before in positions)
        a, b = unmasked[1:first], unmasked[first + 1 : length - 1]
        of_a, of_b = places(a, starts), places(b, starts)
        assert of_a and of_b
        if not row["next_sentence_labels"][0] and length < 128:
            # Nothing was truncated: B goes on where A ends.
            assert {(n, i + len(a)) for n, i in of_a} & set(of_b)
        elif not row["next_sentence_labels"][0]:
            assert {n for n, _ in of_a} & {n for n, _ in of_b}


def test_random_next_is_from_another_document(tmp_path, vocab_file):
    # Each document has words of its own.
    documents = [[[WORDS[d * 10 + s] for s in range(8)] for _ in range(12)] for d in range(20)]
    _, paths = make(tmp_path, vocab_file, text_of(documents), masked_lm_prob=0.0)
    records = parsed(paths, 128, 20)
    unmasked = records["input_ids"].copy()
    np.put_along_axis(
        unmasked, records["masked_lm_positions"][:, :1], records["masked_lm_ids"][:, :1], 1
    )
    for ids, segment, label in zip(
        unmasked, records["segment_ids"], records["next_sentence_labels"][:, 0], strict=True
    ):
        own = {(i - 5) // 10 for i in ids[(segment == 0) & (ids > MASK)]}
        other = {(i - 5) // 10 for i in ids[(segment == 1) & (ids > MASK)]}
        assert len(own) == len(other) == 1
        assert (own != other) == bool(label)


# The bytes ------------------------------------------------------------------------------------


def test_names_manifest_and_checksums(tmp_path, vocab_file):
    reports, _ = make(
        tmp_path, vocab_file, text_of(corpus(60)), num_output_shards=3, eval_fraction=0.3
    )
    folder = tmp_path / "out"
    assert sorted(os.listdir(folder)) == [
        "data-00000-of-00003.tfrecord",
        "data-00001-of-00003.tfrecord",
        "data-00002-of-00003.tfrecord",
        "data.COMPLETED",
        "data.eval-00000-of-00001.tfrecord",
        "data.manifest.json",
        "data.stats.json",
    ]
    manifest = json.loads((folder / "data.manifest.json").read_text())
    assert json.loads((folder / "data.stats.json").read_text()) == reports
    totals = collections.Counter()
    for shard in manifest["shards"]:
        content = (folder / shard["name"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == shard["sha256"]
        assert len(content) == shard["bytes"]
        count = sum(1 for _ in tf.data.TFRecordDataset(str(folder / shard["name"])))
        assert count == shard["examples"]
        totals[shard["split"]] += count
    assert totals == manifest["examples"]
    sizes = [s["examples"] for s in manifest["shards"] if s["split"] == "train"]
    assert max(sizes) - min(sizes) <= 1
    expected = hashlib.sha256("\n".join(VOCABULARY).encode()).hexdigest()
    assert manifest["vocabulary_sha256"] == expected
    assert manifest["max_seq_length"] == 128 and manifest["max_predictions_per_seq"] == 20
    assert manifest["do_lower_case"] is True
    assert manifest["flags"]["random_seed"] == 12345


def test_the_seed_decides(tmp_path, vocab_file):
    text, contents = text_of(corpus(30)), []
    for number, seed in enumerate((1, 1, 2)):
        _, paths = make(tmp_path, vocab_file, text, f"{number}/a.tfrecord", random_seed=seed)
        contents.append(pathlib.Path(paths[0]).read_bytes())
    assert contents[0] == contents[1] != contents[2]


def test_gzip_holds_the_same_records(tmp_path, vocab_file):
    text = text_of(corpus(10))
    _, plain = make(tmp_path, vocab_file, text, "plain.tfrecord")
    _, small = make(tmp_path, vocab_file, text, "small.tfrecord", compression="gzip")
    a, b = (
        tf.data.TFRecordDataset(p, compression_type=c) for p, c in ((plain, ""), (small, "GZIP"))
    )
    assert [r.numpy() for r in a] == [r.numpy() for r in b]
    assert os.path.getsize(small[0]) < os.path.getsize(plain[0]) / 3


def test_held_out_documents_are_apart(tmp_path, vocab_file):
    documents = [[[WORDS[d]] * 6 for _ in range(9)] for d in range(200)]
    make(tmp_path, vocab_file, text_of(documents), eval_fraction=0.25, dupe_factor=2)
    words = {}
    for split, name in (("train", "data.tfrecord"), ("eval", "data.eval-00000-of-00001.tfrecord")):
        records = parsed([str(tmp_path / "out" / name)], 128, 20)
        words[split] = set(records["masked_lm_ids"].ravel()) - {0}
    assert not words["train"] & words["eval"]
    assert 0.15 < len(words["eval"]) / 200 < 0.35
    assert len(words["train"] | words["eval"]) == 200


def test_records_are_shuffled_over_all_shards(tmp_path, vocab_file):
    documents = [[[WORDS[d]] * 6 for _ in range(300)] for d in range(20)]
    make(tmp_path, vocab_file, text_of(documents), num_output_shards=4, dupe_factor=2)
    paths = sorted(str(p) for p in (tmp_path / "out").glob("*.tfrecord"))
    for path in paths:
        first = parsed([path], 128, 20)["masked_lm_ids"][:, 0]
        # Neighbours are from the same document about as often as chance has it: 1 in 20.
        assert np.mean(first[1:] == first[:-1]) < 0.12
        assert len(set(first)) == 20


# What else is there ---------------------------------------------------------------------------


def test_a_complete_run_is_not_done_again(tmp_path, vocab_file):
    text = text_of(corpus(10))
    assert make(tmp_path, vocab_file, text)[0]
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").iterdir()}
    assert make(tmp_path, vocab_file, text)[0] == {}
    assert before == {p: p.stat().st_mtime_ns for p in (tmp_path / "out").iterdir()}


@pytest.mark.parametrize(
    ("flags", "text", "words"),
    [
        ({"dupe_factor": 4}, None, "--dupe_factor=10, not 4"),
        ({}, "wab wac\n\nwad wae\n", "another input"),
    ],
)
def test_records_of_other_flags_are_left_alone(tmp_path, vocab_file, flags, text, words):
    first = text_of(corpus(10))
    make(tmp_path, vocab_file, first)
    before = {p: p.read_bytes() for p in (tmp_path / "out").iterdir()}
    with pytest.raises(InputError, match=words):
        make(tmp_path, vocab_file, text or first, **flags)
    assert before == {p: p.read_bytes() for p in (tmp_path / "out").iterdir()}


def test_a_foreign_file_is_left_alone(tmp_path, vocab_file):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/data.tfrecord").write_bytes(b"mine")
    with pytest.raises(InputError, match="overwrite"):
        make(tmp_path, vocab_file, text_of(corpus(10)))
    assert (tmp_path / "out/data.tfrecord").read_bytes() == b"mine"
    assert os.listdir(tmp_path / "out") == ["data.tfrecord"]


def test_overwrite_replaces_all_that_was_there(tmp_path, vocab_file):
    make(tmp_path, vocab_file, text_of(corpus(10)), num_output_shards=3)
    config = RecordsConfig(vocab_file, dupe_factor=2)
    output = str(tmp_path / "out/data.tfrecord")
    source = str(tmp_path / "corpus.txt")
    with pytest.raises(InputError, match="dupe_factor=10, not 2"):
        local.create(config, source, [output], 1)
    (tmp_path / "one.txt").write_text("wab\n")
    with pytest.raises(InputError, match="one document"):
        local.create(config, str(tmp_path / "one.txt"), [output], 1, overwrite=True)
    assert len(os.listdir(tmp_path / "out")) == 6, "input that is refused costs no records"
    local.create(config, source, [output], 1, overwrite=True)
    names = ["data.COMPLETED", "data.manifest.json", "data.stats.json", "data.tfrecord"]
    assert sorted(os.listdir(tmp_path / "out")) == names


def test_a_damaged_shard_is_made_again(tmp_path, vocab_file):
    text = text_of(corpus(10))
    _, paths = make(tmp_path, vocab_file, text)
    content = pathlib.Path(paths[0]).read_bytes()
    pathlib.Path(paths[0]).write_bytes(content[:-5])
    assert make(tmp_path, vocab_file, text)[0]
    assert pathlib.Path(paths[0]).read_bytes() == content


# Input that cannot be used --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no text"),
        ("\n  \n\n", "no text"),
        ("wab wac\nwad\n", "one document"),
        (b"wab\nwac \xff wad\n\nwae\n", "line 2"),
    ],
)
def test_input_that_cannot_be_used(tmp_path, vocab_file, text, words):
    with pytest.raises(InputError, match=words):
        make(tmp_path, vocab_file, text)
    assert not (tmp_path / "out").exists() or not os.listdir(tmp_path / "out")


@pytest.mark.parametrize(
    "flags",
    [
        {"max_seq_length": 4},
        {"max_predictions_per_seq": 0},
        {"max_predictions_per_seq": 126},
        {"dupe_factor": 0},
        {"masked_lm_prob": 1.5},
        {"mask_token_prob": 0.8, "random_token_prob": 0.3},
        {"eval_fraction": 1.0},
        {"objective": "nsp"},
    ],
)
def test_flags_that_cannot_be(flags):
    with pytest.raises(InputError, match=next(iter(flags))):
        RecordsConfig("vocab.txt", **flags)


@pytest.mark.slow
def test_the_main(tmp_path, vocab_file):
    source, output = tmp_path / "corpus.txt", tmp_path / "out" / "data.tfrecord"
    source.write_text(text_of(corpus(10)))
    arguments = [f"--output_file={output}", f"--vocab_file={vocab_file}"]
    result = run_main(f"--input_file={source}", *arguments)
    assert result.returncode == 0, result.stderr
    assert "examples" in result.stdout
    assert "nothing to do" in run_main(f"--input_file={source}", *arguments).stdout
    result = run_main(f"--input_file={tmp_path}/none*.txt", *arguments)
    assert result.returncode == 2
    assert result.stderr.strip().splitlines()[-1].startswith("error: No input file matches")


# Kinds of input -------------------------------------------------------------------------------


def sentences_of(tmp_path, contents, segment_bytes=4 << 20, **flags):
    """(document, sentence) pairs as they are read, over all segments."""
    paths = []
    for number, content in enumerate(contents):
        paths.append(tmp_path / f"{number}.txt")
        paths[-1].write_bytes(content.encode())
    config = RecordsConfig("", segment_bytes=segment_bytes, **flags)
    found = []
    for number, segment in enumerate(reading.cut(config, [str(path) for path in paths])):
        texts, documents = reading.read(config, segment)
        found += [((number, int(d)), text) for d, text in zip(documents, texts, strict=True)]
    order = {key: index for index, key in enumerate(dict.fromkeys(key for key, _ in found))}
    return [(order[key], text) for key, text in found]


def test_a_document_goes_on_in_the_next_file_as_released(tmp_path):
    contents = ["a\nb", "c\n\nd\n", "\ne\n"]
    joined = [(0, "a"), (0, "b"), (0, "c"), (1, "d"), (2, "e")]
    assert sentences_of(tmp_path, contents) == joined
    apart = sentences_of(tmp_path, contents, break_documents_at_files=True)
    assert apart == [(0, "a"), (0, "b"), (1, "c"), (2, "d"), (3, "e")]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("segment_bytes", [1, 7, 100, 1000])
def test_cuts_change_no_document(tmp_path, segment_bytes, line_end):
    rng = random.Random(segment_bytes)
    contents = []
    for _ in range(4):
        lines = [rng.choice(["", " ", "\u3000", "x y", "äöü " * 9, "\t"]) for _ in range(60)]
        contents.append(line_end.join(lines))
    whole = sentences_of(tmp_path, contents)
    # The rule, spelled out: a line without anything but blanks ends a document.
    expected, number, fresh = [], -1, True
    for line in (line for content in contents for line in content.removesuffix("\n").split("\n")):
        if not line.strip():
            fresh = True
            continue
        number += fresh
        fresh = False
        expected.append((number, line.strip()))
    assert whole == expected
    assert sentences_of(tmp_path, contents, segment_bytes) == whole


def test_jsonl_is_a_document_a_line(tmp_path, vocab_file):
    lines = [json.dumps({"body": "wab wac.\n\nwad wae", "id": 1}), json.dumps({"body": "waf"})]
    found = sentences_of(
        tmp_path, ["\n".join(lines) + "\n"], input_format="jsonl", text_feature="body"
    )
    assert found == [(0, "wab wac."), (0, "wad wae"), (1, "waf")]
    with pytest.raises(InputError, match=r"Line 2 of .*\"text\""):
        make(tmp_path, vocab_file, '{"text": "wab"}\n{"body": "wac"}\n', input_format="jsonl")


def test_tensorflow_datasets(tmp_path, vocab_file):
    tfds = pytest.importorskip("tensorflow_datasets")
    texts = ["wab wac\nwad", "wae waf", "wag\n\nwah"]
    folder = tmp_path / "tfds" / "tiny" / "1.0.0"
    folder.mkdir(parents=True)
    info = tfds.features.FeaturesDict({"text": tfds.features.Text()})
    with tf.io.TFRecordWriter(str(folder / "tiny-train.tfrecord-00000-of-00001")) as writer:
        for text in texts:
            writer.write(info.serialize_example({"text": text}))
    split = tfds.core.SplitInfo(name="train", shard_lengths=[3], num_bytes=60)
    tfds.folder_dataset.write_metadata(
        data_dir=str(folder), features=info, split_infos=[split],
        filename_template="{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
    )  # fmt: skip
    config = RecordsConfig(
        vocab_file, input_format="tfds", tfds_name="tiny:train",
        tfds_data_dir=str(tmp_path / "tfds"), segment_bytes=25,
    )  # fmt: skip
    segments = reading.cut(config, [])
    assert len(segments) > 1
    found = [reading.read(config, segment) for segment in segments]
    assert [text for texts, _ in found for text in texts] == [
        "wab wac",
        "wad",
        "wae waf",
        "wag",
        "wah",
    ]
    output = str(tmp_path / "tfds.tfrecord")
    assert local.create(config, "", [output], 1)["train"]["examples"] > 0


def test_paragraphs_are_split_into_sentences(tmp_path):
    text = "One is here. Two is there!\n\nDoes three come? Yes.\n"
    found = sentences_of(tmp_path, [text], split_sentences=True)
    assert found == [
        (0, "One is here."), (0, "Two is there!"), (1, "Does three come?"), (1, "Yes."),
    ]  # fmt: skip


# Other objectives -----------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["mlm", "causal"])
def test_sequences_of_one_part(tmp_path, vocab_file, objective):
    documents = corpus(20)
    _, paths = make(
        tmp_path, vocab_file, text_of(documents), objective=objective, dupe_factor=1,
        short_seq_prob=0.0,
    )  # fmt: skip
    records = parsed(paths, 128, 20)
    from bert_tf.tokenization import BertTokenizer

    tokens = sum(
        len(s) for document in ids_of(documents, BertTokenizer(VOCABULARY)) for s in document
    )
    lengths = records["input_mask"].sum(axis=1)
    # No token is lost but of sentences that are too long, of which there are none.
    assert (lengths - 2).sum() == tokens
    assert (records["input_ids"][:, 0] == CLS).all()
    assert (records["input_ids"][np.arange(len(lengths)), lengths - 1] == SEP).all()
    assert not records["segment_ids"].any() and not records["next_sentence_labels"].any()
    predicted = records["masked_lm_weights"].sum(axis=1)
    if objective == "causal":
        assert not predicted.any()
        assert not (records["input_ids"] == MASK).any()
    else:
        assert predicted.tolist() == [min(20, max(1, round(int(n) * 0.15))) for n in lengths]


def test_one_document_is_enough_without_pairs(tmp_path, vocab_file):
    reports, _ = make(tmp_path, vocab_file, "wab wac\nwad\n", objective="mlm")
    assert reports["train"]["examples"] > 0


# Inspecting -----------------------------------------------------------------------------------


def audit(path, *arguments):
    command = [sys.executable, str(ROOT / "data_prep/inspect_records.py"), f"--input_file={path}"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, cwd=ROOT)


@pytest.mark.slow
def test_inspecting(tmp_path, vocab_file):
    _, paths = make(tmp_path, vocab_file, text_of(corpus(30)), dupe_factor=3)
    result = audit(paths[0], f"--vocab_file={vocab_file}")
    assert result.returncode == 0, result.stderr
    assert "all 13 rules hold" in result.stdout and "[MASK=" in result.stdout
    assert "NOT as expected" not in result.stdout


def test_an_audit_finds_what_is_wrong(tmp_path, vocab_file):
    _, paths = make(tmp_path, vocab_file, text_of(corpus(5)), dupe_factor=1)
    vocabulary, _ = records_reading.load_vocabulary(vocab_file, True)
    columns = parsed(paths, 128, 20)
    assert not any(auditing.violations(columns, vocabulary).values())
    for name, row, column, value, rule in (
        ("input_ids", 0, 5, len(VOCABULARY), "outside the vocabulary"),
        ("input_ids", 1, 0, 9, "not [CLS]"),
        ("segment_ids", 2, 1, 1, "segment_ids"),
        ("input_mask", 3, 1, 0, "input_mask"),
        ("masked_lm_positions", 4, 0, 127, "ascend"),
        ("next_sentence_labels", 5, 0, 2, "next_sentence_labels"),
        ("masked_lm_weights", 6, 0, 0.0, "weights"),
    ):
        damaged = {key: array.copy() for key, array in columns.items()}
        damaged[name][row, column] = value
        found = {r: n for r, n in auditing.violations(damaged, vocabulary).items() if n}
        assert any(rule in each for each in found), (name, found)


def test_records_of_the_model_garden_are_read(tmp_path, vocab_file):
    def ints(*values):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    feature = {
        "input_word_ids": ints(CLS, 9, MASK, SEP, 8, SEP, 0, 0),
        "input_mask": ints(1, 1, 1, 1, 1, 1, 0, 0),
        "input_type_ids": ints(0, 0, 0, 0, 1, 1, 0, 0),
        "masked_lm_positions": ints(2, 0),
        "masked_lm_ids": ints(7, 0),
        "masked_lm_weights": tf.train.Feature(float_list=tf.train.FloatList(value=[1.0, 0.0])),
        "next_sentence_labels": ints(1),
    }
    example = tf.train.Example(features=tf.train.Features(feature=feature))
    path = str(tmp_path / "garden.tfrecord")
    with tf.io.TFRecordWriter(path, "GZIP") as writer:
        writer.write(example.SerializeToString())
    (columns,) = records_reading.read(path)
    vocabulary, tokens = records_reading.load_vocabulary(vocab_file, True)
    assert not any(auditing.violations(columns, vocabulary).values())
    text = auditing.as_text(columns, 0, tokens, MASK)
    assert text == "[CLS] wae [MASK=wac] [SEP] wad [SEP]\n  B is random; 6 tokens"


# Serializing ----------------------------------------------------------------------------------
