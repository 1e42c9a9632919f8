"""Reads the input formats: text, WikiExtractor's, JSON lines, TFRecord and Parquet.

By default, the ending of a file name determines the format of the file. A text file
that begins with the markup of WikiExtractor is read in the format of WikiExtractor.
`read_chunks` and `read_lines` read text files and JSON lines, and unpack .gz and .bz2.
`read_documents` reads the documents of all formats except text.
"""

import bz2
import gzip
import html
import itertools
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from bert_tf.errors import InputError
from bert_tf.storage import files, json_files, tfrecords
from bert_tf.storage.json_files import unique_keys

FORMATS = ("text", "wikiextractor", "jsonl", "tfrecord", "parquet")
# What error messages call one document, by format.
UNITS = {
    "wikiextractor": "article",
    "jsonl": "line",
    "tfrecord": "record",
    "parquet": "row",
}
CHUNK_BYTES = 1 << 19
_PARQUET_ROWS = 64  # rows read at a time; each is a document of up to 8 MiB
# For each ending of packed files: the words for the format in error messages, and the
# function that opens such a file.
PACKED: dict[str, tuple[str, Any]] = {
    ".gz": (" as gzip", gzip.open),
    ".bz2": (" as bzip2", bz2.open),
}
_STDIN = "/dev/stdin"
_TFRECORD_NAME = re.compile(r"\.tf_?records?(-|$)|\.record$")
_BLOCK_START = "<doc id="
_BLOCK_END = "</doc>"  # of WikiExtractor
_BLOCKS = re.compile(rb"(\xef\xbb\xbf)?\s*" + _BLOCK_START.encode())


def format_of(path: str, input_format: str = "auto") -> str:
    """Returns `input_format`; if it is "auto", the format that the ending of `path` names."""
    if input_format != "auto":
        return input_format
    name, ending = os.path.splitext(os.path.basename(path))
    name += "" if ending in PACKED else ending
    if _TFRECORD_NAME.search(name):
        return "tfrecord"
    return {".jsonl": "jsonl", ".parquet": "parquet"}.get(
        os.path.splitext(name)[1], "text"
    )


def is_pipe(path: str) -> bool:
    """Whether a path is standard input, a named pipe or a process substitution."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def input_files(
    patterns: str, input_format: str, feature: str, allow_pipes: bool = False
) -> dict[str, str]:
    """Checks the start of each input file, and returns a mapping from path to format.

    If the format is "auto", a text file that begins with the markup of WikiExtractor
    gets the format "wikiextractor". The number of such files is printed, and a hint
    about the first file that does not look like prose. Pipes are not checked, because a
    pipe can be read only once.

    `patterns` is a comma-separated list of globs; "-" is standard input. `feature` is
    the JSON key, `tf.train.Example` feature or Parquet column that holds the text.

    Raises:
        InputError: A glob matches nothing, a path is a folder, a path is a pipe although
            `allow_pipes` is false, a file cannot be read in its format, or the first
            document of a file has no text under `feature`.
    """
    import tensorflow as tf

    names = map(str.strip, patterns.split(","))
    paths = files.expand_globs(_STDIN if name == "-" else name for name in names)
    formats = {path: format_of(path, input_format) for path in paths}
    blocks = []
    hint = ""

    # The start of each file is checked, except that of a pipe.
    for path, file_format in formats.items():
        if tf.io.gfile.isdir(path):
            raise InputError(
                f"{path} is a folder. Give the files in it: {path.rstrip('/')}/*"
            )
        if not allow_pipes and (is_pipe(path) or path == _STDIN):
            name = "-" if path == _STDIN else path
            raise InputError(
                f"input_file {name} is a pipe or a device, but the input is read "
                "several times. Write it to a file first and give that file; a .gz "
                "file can be given as it is."
            )
        if is_pipe(path):
            continue
        if (
            file_format == "text"
            and input_format == "auto"
            and _BLOCKS.match(next(read_chunks(path), b""))
        ):
            file_format = formats[path] = "wikiextractor"
            blocks.append(path)

        content = (
            read_text(path, input_format)
            if file_format == "text"
            else read_documents(path, file_format, feature)
        )
        start = next(content, b"")
        hint = hint or hint_about(path, start)

    if blocks:
        print(
            f"{len(blocks):,} of {len(formats):,} input files, such as {blocks[0]}, "
            "begin with <doc id= and are read as --input_format=wikiextractor.",
            file=sys.stderr,
        )
    if hint:
        print(hint, file=sys.stderr)
    return formats


# Files with lines ---------------------------------------------------------------------


def read_text(path: str, input_format: str) -> Iterator[bytes]:
    """Reads the bytes of a text file or pipe in chunks; packed files are unpacked.

    If `input_format` is "auto", a file that begins with JSON or with the markup of
    WikiExtractor raises an `InputError`. If `input_format` is "text", such a file is
    read as text.
    """
    for number, chunk in enumerate(read_chunks(path)):
        is_unknown = number == 0 and input_format == "auto"
        if is_unknown and _BLOCKS.match(chunk):  # a pipe
            raise InputError(
                f"{path} begins with <doc id=. Give input_format=wikiextractor."
            )
        if is_unknown and json_files.START.match(chunk):
            raise InputError(
                f"{path} contains JSON. Give input_format=jsonl for one object on each "
                "line, which `jq -c '.[]'` makes of an array; or input_format=text to "
                "read it as text."
            )
        yield chunk


def read_chunks(path: str, start: int = 0, end: int = sys.maxsize) -> Iterator[bytes]:
    """Unpacks a file or pipe if it is packed, and reads its bytes [start, end) in chunks.

    For a packed file, `start` and `end` are positions in the unpacked content.

    Raises:
        InputError: The file cannot be read, or its first (unpacked) bytes show that the
            content is packed, binary, not UTF-8, or has carriage returns but no line
            feeds.
    """
    import tensorflow as tf

    kind, unpack = PACKED.get(os.path.splitext(path)[1], ("", None))
    open_file: Any = open if is_pipe(path) else tf.io.gfile.GFile
    with files.explain_read_errors(path, kind), open_file(path, "rb") as file:
        stream = unpack(file) if unpack else file
        if start:
            stream.seek(start)
        while chunk := stream.read(min(CHUNK_BYTES, end - start)):
            if not start:
                _check_first_bytes(path, chunk)
            start += len(chunk)
            yield chunk


def _check_first_bytes(path: str, text: bytes) -> None:
    kind = files.binary_format(text)
    if kind in FORMATS:
        raise InputError(
            f"{path} is a {kind} file, not text. Give input_format={kind}."
        )
    if kind:
        raise InputError(f"{path} is packed ({kind}), not text. Unpack it first.")
    files.check_lines(path, text)
    if len(text) - len(text.decode(errors="ignore").encode()) > max(
        len(text) // 100, 40
    ):
        raise InputError(
            f"{path} is not UTF-8 text. Convert it: iconv -f ENCODING -t UTF-8."
        )


def read_lines(
    path: str, start: int = 0, end: int = sys.maxsize, source: str = ""
) -> Iterator[tuple[str, int]]:
    """Reads the lines in the bytes [start, end) of a file, several lines at a time.

    `source` is the name of the file in error messages; "" for `path`.

    Yields:
        A string of complete lines, and the position of its first line in the file, in
        bytes. A byte order mark at the start of the string is dropped.
    """
    rest = b""
    for chunk in itertools.chain(read_chunks(path, start, end), [b""]):
        rest += chunk
        # The empty chunk is the end of the file, whose last line may have no line feed.
        if length := rest.rfind(b"\n") + 1 if chunk else len(rest):
            try:
                text = rest[:length].decode("utf-8-sig")
            except UnicodeDecodeError as error:
                line = line_number(path, start) + error.object.count(
                    b"\n", 0, error.start
                )
                raise not_utf8(source or path, f"line {line}", error) from error
            yield text, start
            start += length
            rest = rest[length:]
        if len(rest) > files.MAX_LINE_BYTES:
            raise InputError(
                f"{source or path} has a line of more than {files.MAX_LINE_BYTES >> 20} MiB. "
                "Split it."
            )


def line_number(path: str, position: int) -> int:
    """Returns the number, from 1, of the line that contains the byte at this position."""
    chunks = read_chunks(path, 0, position) if position else ()
    return 1 + sum(chunk.count(b"\n") for chunk in chunks)


def not_utf8(source: str, place: str, error: UnicodeDecodeError) -> InputError:
    """Returns the error for a place in a file, such as "line 7", that is not valid UTF-8."""
    byte = f"byte 0x{error.object[error.start]:02x} in {place}"
    return InputError(f"{source} is not UTF-8: {byte}. Convert it first.")


# Documents ----------------------------------------------------------------------------


def read_documents(path: str, file_format: str, feature: str) -> Iterator[bytes]:
    """Reads the documents of a file of any format except text.

    Files of WikiExtractor, JSON lines and TFRecord files may be packed. `feature` is
    the JSON key, `tf.train.Example` feature or Parquet column that holds the text.
    """
    if file_format == "wikiextractor":
        return map(str.encode, _articles(path))
    if file_format == "jsonl":
        return map(str.encode, read_json_texts(path, feature))
    return (_tfrecord_texts if file_format == "tfrecord" else _parquet_texts)(
        path, feature
    )


def read_json_texts(
    path: str, feature: str, start: int = 0, end: int = sys.maxsize, source: str = ""
) -> Iterator[str]:
    """Yields the text of each JSON object in the bytes [start, end) of a file.

    `feature` is the key of the text. Blank lines are skipped. `source` is the name of
    the file in error messages; "" for `path`.
    """
    for lines, position in read_lines(path, start, end, source):
        for index, line in enumerate(lines.split("\n")):
            if not line.strip():
                continue
            try:
                text = json.loads(line, object_pairs_hook=unique_keys, parse_int=float)[
                    feature
                ]
            except (ValueError, KeyError, TypeError, RecursionError):
                text = None
            if not isinstance(text, str):
                raise InputError(
                    f"Line {line_number(path, position) + index} of {source or path} "
                    "is not a JSON "
                    f'object with one string under "{feature}". text_feature names the '
                    "key."
                )
            # A JSON escape can be an unpaired surrogate. It becomes U+FFFD, which the
            # tokenizer drops.
            yield text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _articles(path: str) -> Iterator[str]:
    """Yields the text of each block of WikiExtractor, with its HTML entities decoded.

    The title, which WikiExtractor repeats in the first line of a block, is left out,
    and so is a block without other text. Text outside of the blocks raises an
    `InputError`.

    Source: https://github.com/attardi/wikiextractor, `Extractor.extract`.
    """
    start = ""
    first_line = 0
    body = [""]
    lines = (
        line.strip()
        for text, _ in read_lines(path)
        for line in text.removesuffix("\n").split("\n")
    )
    for number, line in enumerate(lines, 1):
        if line.startswith(_BLOCK_START):
            if start:
                break
            start = html.unescape(line)
            first_line = number
            body = []
            continue
        if line and not start:
            raise InputError(
                f"Line {number} of {path} is outside of the blocks from <doc id=...> "
                "to </doc> of WikiExtractor. Remove the line, or give "
                "input_format=text."
            )

        if text := html.unescape(line.removesuffix(_BLOCK_END)).strip():
            body.append(text)
        if line.endswith(_BLOCK_END):
            # A title may contain quotation marks, so the attribute is not parsed: the
            # first line is compared with it.
            is_title = bool(body) and f'title="{body[0]}"' in start
            if len(body) > is_title:
                yield "\n".join(body[is_title:])
            start = ""

    if start:
        raise InputError(
            f"The block that starts in line {first_line} of {path} has no </doc>. "
            "Extract the file again, or remove the block."
        )


def _tfrecord_texts(path: str, feature: str) -> Iterator[bytes]:
    """Yields each record's text, or b""; if the first record has no text, raises an error."""
    import tensorflow as tf

    with files.explain_read_errors(path, " as TFRecord"):
        for number, record in enumerate(
            tfrecords.open_records(path).as_numpy_iterator()
        ):
            features = tf.train.Example.FromString(record).features.feature
            texts = features[feature].bytes_list.value if feature in features else ()
            if not texts and number == 0:
                raise no_text(path, "feature", feature, features)
            yield b"\n".join(texts)


def _parquet_texts(path: str, feature: str) -> Iterator[bytes]:
    """Yields the text of each row, or b"" for a row that has no value."""
    with files.open_parquet(path) as table:
        import pyarrow as pa

        schema = table.schema_arrow
        # A name may be repeated.
        kinds = [field.type for field in schema if field.name == feature]
        if len(kinds) != 1 or kinds[0] not in (pa.string(), pa.large_string()):
            columns = [f"{field.name} ({field.type})" for field in schema]
            raise no_text(path, "column", feature, columns)
        for batch in table.iter_batches(
            _PARQUET_ROWS, columns=[feature], use_threads=False
        ):
            for text in batch.column(0).cast(pa.large_binary()):
                yield text.as_py() or b""


def no_text(source: str, kind: str, feature: str, names: Iterable[str]) -> InputError:
    """Returns the error for a feature or column that is missing or is not text.

    `kind` is "feature" or "column". `names` are the existing features or columns.
    """
    return InputError(
        f"{source} has no text in a {kind} {feature!r}. It has: "
        f"{', '.join(sorted(names))}. Set text_feature."
    )


_SAMPLE_BYTES = 1 << 16
_LEAST_LINES = 5
_TIME_CODE = re.compile(r"\d:\d\d[:.,]\d\d")  # as in 00:01:02,345 and [01:02.34]
_WRAPPED = range(55, 81)  # characters of a line
_SENTENCE_ENDS = ".!?:;…。！？।۔"
_CLOSING = "\"'”’»)]*_ "


def hint_about(path: str, start: bytes) -> str:
    """Returns a hint for the user if a text is not prose or is hard-wrapped, else "".

    Only the first 64 KiB of `start` are examined. A text is not prose if more than a
    quarter of its lines have no letter or have a time code. Its lines are wrapped if
    most of them have 55 to 80 characters and end inside of a sentence.
    """
    text = start[:_SAMPLE_BYTES].decode(errors="ignore")
    lines = [raw.strip() for raw in text.split("\n") if raw.strip()]
    if len(lines) < _LEAST_LINES:
        return ""

    other = sum(
        not re.search(r"[^\W\d_]", line) or bool(_TIME_CODE.search(line))
        for line in lines
    )
    if other > len(lines) / 4:
        return (
            f"hint: {other:,} of the first {len(lines):,} lines of {path} have no "
            "letter or have a time code. If they are subtitles or tables, keep only "
            "the sentences."
        )

    # Lines that an editor has wrapped end inside of sentences.
    wrapped = sum(
        len(line) in _WRAPPED and line.rstrip(_CLOSING)[-1:] not in _SENTENCE_ENDS
        for line in lines
    )
    if wrapped > len(lines) / 2:
        return (
            f"hint: {wrapped:,} of the first {len(lines):,} lines of {path} end inside "
            "of a sentence, but each line is read as a sentence. Join the lines of "
            "each paragraph, and create the records with --split_sentences "
            "(docs/pretraining_data.md)."
        )
    return ""
