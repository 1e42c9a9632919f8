"""Writes documents as a file, in any of the formats that `data_prep` reads."""

import bz2
import gzip
import html
import json

import pyarrow
import pyarrow.parquet
import tensorflow as tf

# Endings of files in which each document is a line, a record or a row.
DOCUMENT_ENDINGS = [
    ".jsonl",
    ".jsonl.gz",
    ".tfrecord",
    ".tfrecord.gz",
    ".tfrecord-00000-of-00001",
    ".parquet",
]
TEXT_ENDINGS = [".txt", ".txt.gz", ".txt.bz2", ""]
WIKIEXTRACTOR_ENDINGS = ["wiki_00", "wiki_00.bz2"]


def write(path, documents, feature="text"):
    """Writes documents in the format of the file's ending.

    A document is a string of lines.

    In a TFRecord file, it may be bytes.
    """
    name, path = path.name, str(path)
    if ".tfrecord" in name:
        with tf.io.TFRecordWriter(
            path, "GZIP" if name.endswith(".gz") else ""
        ) as writer:
            for text in documents:
                text = text.encode() if isinstance(text, str) else text
                features = {feature: {"bytes_list": {"value": [text]}}}
                writer.write(
                    tf.train.Example(features={"feature": features}).SerializeToString()
                )
        return path
    if ".parquet" in name:
        table = pyarrow.table({feature: documents, "id": list(range(len(documents)))})
        pyarrow.parquet.write_table(table, path)
        return path
    if ".jsonl" in name:
        content = "".join(
            json.dumps({"id": 1, feature: text}) + "\n" for text in documents
        )
    elif "wiki_" in name:
        content = "".join(
            wikiextractor_block(n, text) for n, text in enumerate(documents)
        )
    else:
        content = "\n\n".join(documents) + "\n"
    packers = {"gz": gzip.open, "bz2": bz2.open}
    with packers.get(name.rpartition(".")[2], open)(path, "wb") as file:
        file.write(content.encode())
    return path


def wikiextractor_block(number, text):
    """Returns an article as `Extractor.extract` of WikiExtractor writes it."""
    title = f'A & "b" {number}'
    url = f"https://en.wikipedia.org/wiki?curid={number}"
    head = f'<doc id="{number}" url="{url}" title="{title}">'
    lines = html.escape(text, quote=False).split("\n")
    return f"{head}\n{title}\n\n" + "\n\n".join(lines) + "\n\n</doc>\n"


def write_tfds(folder, documents):
    """Writes a tensorflow-datasets data set named "tiny" with the split "train"."""
    import tensorflow_datasets as tfds

    data_dir = folder / "tfds" / "tiny" / "1.0.0"
    data_dir.mkdir(parents=True)
    info = tfds.features.FeaturesDict({"text": tfds.features.Text()})
    with tf.io.TFRecordWriter(
        str(data_dir / "tiny-train.tfrecord-00000-of-00001")
    ) as writer:
        for text in documents:
            writer.write(info.serialize_example({"text": text}))
    split = tfds.core.SplitInfo(
        name="train", shard_lengths=[len(documents)], num_bytes=20 * len(documents)
    )
    tfds.folder_dataset.write_metadata(
        data_dir=str(data_dir),
        features=info,
        split_infos=[split],
        filename_template="{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
    )
    return str(folder / "tfds")
