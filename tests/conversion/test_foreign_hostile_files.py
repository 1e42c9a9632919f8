"""Damaged and hostile `.bin` and `.h5` files: one line, and no other file is opened."""

import itertools
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tracemalloc
import zipfile

import h5py
import numpy as np
import pytest
import pytorch_files as torch_files
from golden_checkpoints import HUGGING_FACE
from json_files import write_json
from pytorch_files import (
    Call,
    Name,
    Persistent,
    Raw,
    legacy_file,
    of_array,
    state_of,
    zip_file,
)
from refusals import refused

import bert_tf
from bert_tf.conversion import read_weights
from bert_tf.conversion.pytorch_file import read_tensors
from bert_tf.errors import InputError

ARRAY = np.arange(6, dtype=np.float32)
STORED = torch_files.storage("0", ARRAY)
COMMAND = Call(Name("os", "system"), ("touch hacked",))
# The object of a file and a part of the message.
STATES = {
    "os": (COMMAND, "contains os.system"),
    "builtins": (Call(Name("builtins", "eval"), ("1",)), "contains builtins.eval"),
    "in a dict": ({"w": of_array("0", ARRAY), "x": COMMAND}, "contains os.system"),
    "torch.save(model)": (
        Call(Name("transformers.models.bert.modeling_bert", "BertModel"), ()),
        "contains transformers.models.bert.modeling_bert.BertModel.*state_dict",
    ),
    "training_args.bin": (
        Call(Name("transformers.training_args", "TrainingArguments"), ()),
        "contains transformers.training_args.TrainingArguments",
    ),
    "call of a string": (Call("os.system", ("touch hacked",)), "calls an object"),
    "call of a storage": (Call(STORED, ()), "calls an object"),
    "build of an object": (
        Raw(torch_files.opcodes_of(STORED) + b"}b"),
        "cannot be read",
    ),
    "beyond": ({"w": torch_files.tensor(STORED, (2, 3), (4, 1))}, "outside of its"),
    "offset": ({"w": torch_files.tensor(STORED, (6,), (1,), 1)}, "outside of its"),
    "huge": ({"w": torch_files.tensor(STORED, (10**18,), (1,))}, "outside of its"),
    "stride 0": ({"w": torch_files.tensor(STORED, (10**18,), (0,))}, "overlap"),
    "overlap": ({"w": torch_files.tensor(STORED, (2, 3), (2, 1))}, "overlap"),
    "negative": ({"w": torch_files.tensor(STORED, (2,), (-1,), 1)}, "not valid"),
    "no stride": ({"w": torch_files.tensor(STORED, (2, 3), (3,))}, "not valid"),
    "float size": ({"w": torch_files.tensor(STORED, ("2",), (1,))}, "not valid"),
    "count": (
        {"w": torch_files.tensor(torch_files.storage("0", ARRAY, 7), (7,), (1,))},
        "another size than its tensors",
    ),
    "negative count": (
        {"w": torch_files.tensor(torch_files.storage("0", ARRAY, -6), (6,), (1,))},
        "another size",
    ),
    "unknown storage": (
        Persistent(("module", Name("torch", "FloatStorage"), "0", "cpu", 6)),
        "unknown kind",
    ),
    "path": (
        {"w": torch_files.tensor(
            torch_files.storage("../../../etc/passwd", ARRAY), (6,), (1,)
        )},
        "passwd",
    ),
    "name of two lines": ({"a\nb": of_array("0", ARRAY)}, "not printable"),
    "no dict": ([of_array("0", ARRAY)], "cannot be read"),
    "no tensors": ({"a": 1}, "no dict of tensors"),
    "repeated key": (Raw(b"}(X\1\0\0\0aNX\1\0\0\0aNu"), "repeated"),
    "nested key": (Raw(b"}" + b"(" + b")" + b"\x85" * 100_000 + b"Nu"), "repeated"),
    "recursive list": (Raw(b"]q\0h\0a"), "cannot be read"),
    "recursive dict": (Raw(b"}q\0X\1\0\0\0ah\0s"), "no dict of tensors"),
    "nested tuples": (Raw(b")" + b"\x85" * 100_000), "cannot be read"),
    "many opcodes": (Raw(b"N" * 300_000), "opcodes"),
    "opcode of Python": (Raw(b"(i__main__\nx\n"), "opcode INST"),
    "no mark": (Raw(b"t"), "cannot be read"),
    "empty stack": (Raw(b"\x85"), "cannot be read"),
    "no memo": (Raw(b"h\7"), "cannot be read"),
}  # fmt: skip


def is_refused_in_one_line(path, content, message):
    path.write_bytes(content)
    with refused(message):
        read_tensors(str(path))


@pytest.mark.parametrize("name", STATES)
def test_a_hostile_pickle_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    state, message = STATES[name]
    path = tmp_path / "pytorch_model.bin"
    is_refused_in_one_line(path, zip_file(state, {"0": ARRAY}), message)
    is_refused_in_one_line(path, legacy_file(state, {"0": ARRAY}), "cannot be read")
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_hostile_archive_is_refused(tmp_path):
    path = tmp_path / "pytorch_model.bin"
    state, storages = {"w": of_array("0", ARRAY)}, {"0": ARRAY}
    valid = zip_file(state, storages)
    path.write_bytes(valid)
    assert read_tensors(str(path))["w"].tolist() == list(range(6))
    compressed = zip_file(state, storages, compression=zipfile.ZIP_DEFLATED)
    big_endian = valid.replace(b"little", b"bigbig")
    for content, message in {
        compressed: "compressed",
        big_endian: "byteorder is damaged",
        zip_file(state, {"0": ARRAY[:5]}): "another size",
        zip_file(state, {}): "data/0",
        legacy_file(state, storages, little_endian=False): "big-endian",
        b"": "other bytes",
        b"version https://git-lfs.github.com/spec/v1\n": "git lfs pull",
    }.items():
        is_refused_in_one_line(path, content, message)
    assert (
        legacy_file(state, storages)[:-24].endswith(struct.pack("<q", 6))
    )  # fmt: skip


def test_big_endian_archives_are_refused(tmp_path):
    more = [("other/byteorder", b"big")]
    content = zip_file({"w": of_array("0", ARRAY)}, {"0": ARRAY}, more)
    is_refused_in_one_line(tmp_path / "a.bin", content, "big-endian")


def test_many_tensors_of_one_storage_do_not_use_more_memory(tmp_path):
    """Each of them becomes float32, so 1,000 of them would use 2,000 times the file."""
    half = np.zeros(1_000_000, np.float16)
    stored = torch_files.storage("0", half)
    state = {
        f"w{i}": torch_files.tensor(stored, (999_000,), (1,), i) for i in range(999)
    }
    path = tmp_path / "pytorch_model.bin"
    content = zip_file(state, {"0": half})
    path.write_bytes(content)
    tracemalloc.start()
    with refused("more bytes than the file"):
        read_tensors(str(path))
    assert tracemalloc.get_traced_memory()[1] < 4 * len(content)
    tracemalloc.stop()


@pytest.fixture
def tensors():
    """The tensors of a small encoder."""
    generator = np.random.default_rng(0)
    return {
        f"bert.encoder.layer.{i}.output.dense.{end}": generator.normal(size=shape)
        .astype(np.float32)
        for i in range(3)
        for end, shape in {"weight": (6, 8), "bias": (6,)}.items()
    }  # fmt: skip


def weights_positions(content, arrays):
    """Returns the positions of the bytes of all weights."""
    starts = [(content.index(each.tobytes()), each.nbytes) for each in arrays.values()]
    return {start + i for start, size in starts for i in range(size)}


_EVENTS = []  # of Python's audit hooks, which cannot be removed
_IS_RECORDING = [False]
_FORBIDDEN = ("open", "import", "exec", "compile", "os.", "subprocess.", "pickle.")


def record_events(event, arguments, is_recording=_IS_RECORDING):
    # The hook is called after Python, when it ends, has set the names of this module to None.
    if is_recording[0] and event.startswith(_FORBIDDEN):
        _EVENTS.append((event, str(arguments)))


@pytest.fixture(scope="module", autouse=True)
def audit_hook():
    sys.addaudithook(record_events)


def read_or_message(path, content):
    """Returns the arrays of a changed file, or None after a message of one line.

    Reading opens no other file, imports nothing and starts nothing.
    """
    path.write_bytes(content)
    _EVENTS.clear()
    _IS_RECORDING[0] = True
    try:
        return read_tensors(str(path))
    except InputError as error:
        assert "\n" not in str(error)
        return None
    finally:
        _IS_RECORDING[0] = False
        own = f"({str(path)!r}, 'r',"  # the mode of Python's audit event
        others = [(n, a) for n, a in _EVENTS if n != "open" or not a.startswith(own)]
        assert not others


@pytest.mark.parametrize("write", [zip_file, legacy_file])
def test_truncated_files_are_refused(write, tensors, tmp_path):
    content = write(*state_of(tensors))
    for size in itertools.chain(range(0, len(content), 37), [len(content) - 1]):
        assert read_or_message(tmp_path / "a.bin", content[:size]) is None


@pytest.mark.parametrize("write", [zip_file, legacy_file])
def test_changed_bytes_give_a_message_or_the_right_arrays(write, tensors, tmp_path):
    """A changed name is that of no weight, or repeated: 1,000 changes of each form."""
    content = write(*state_of(tensors))
    inside = weights_positions(content, tensors)
    generator = np.random.default_rng(11)
    path = tmp_path / "a.bin"
    outcomes = {"refused": 0, "read": 0, "other values": 0}
    for _ in range(1000):
        changed = bytearray(content)
        position = int(generator.integers(len(content)))
        changed[position] ^= int(generator.integers(1, 256))
        arrays = read_or_message(path, changed)
        if arrays is None:
            outcomes["refused"] += 1
            continue
        if position in inside:
            assert write is legacy_file  # zip files have a checksum of each entry
            assert {n: a.shape for n, a in arrays.items()} == {
                n: a.shape for n, a in tensors.items()
            }
            outcomes["other values"] += 1
            continue
        outcomes["read"] += 1
        for name in arrays.keys() & tensors.keys():
            np.testing.assert_array_equal(arrays[name], tensors[name], err_msg=name)
        # In the legacy form, a name has no checksum; the weight is then missing.
        if write is zip_file:
            assert arrays.keys() == tensors.keys()
        else:
            assert len(arrays.keys() ^ tensors.keys()) <= 2
    assert outcomes["refused"] > 100 and outcomes["read"] > 10, outcomes


def write_h5(path, change):
    with h5py.File(path, "w") as file:
        file["bert/m/bert/embeddings/word_embeddings/weight:0"] = ARRAY.reshape(2, 3)
        change(file)


# The changes of a valid file, and a part of the message.
HDF5 = {
    "external link": (
        lambda file: file.__setitem__("a", h5py.ExternalLink("missing.h5", "/b")),
        "a is a link to another place",
    ),
    "soft link": (
        lambda file: file.__setitem__("a", h5py.SoftLink("/missing")),
        "a is a link to another place",
    ),
    "external storage": (
        lambda file: file.create_dataset(
            "a", (8,), "f4", external=[("/etc/hostname", 0, h5py.h5f.UNLIMITED)]
        ),
        "a is a link to another place",
    ),
    "virtual": (
        lambda file: file.create_virtual_dataset("a", h5py.VirtualLayout((8,), "f4")),
        "a is a link to another place",
    ),
    "not written": (
        lambda file: file.create_dataset("a", (10**12,), "f4"),
        "a is compressed or incomplete",
    ),
    "compressed": (
        lambda file: file.create_dataset(
            "a", data=np.zeros(10**6, "f4"), compression="gzip"
        ),
        "a is compressed or incomplete",
    ),
}


@pytest.fixture
def folder(tmp_path):
    shutil.copy(HUGGING_FACE / "encoder/config.json", tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", HDF5)
def test_an_h5_file_with_other_places_is_refused(name, folder):
    change, message = HDF5[name]
    write_h5(folder / "tf_model.h5", change)
    with refused(message):
        read_weights(str(folder))


def test_truncated_and_cyclic_h5_files(folder):
    path = folder / "tf_model.h5"
    write_h5(path, lambda file: file.__setitem__("bert/again", file["bert"]))
    assert list(read_weights(str(folder)).arrays) == ["bert/embeddings/word_embeddings"]
    content = path.read_bytes()
    for size in range(0, len(content), 97):
        path.write_bytes(content[:size])
        with refused("tf_model.h5"):
            read_weights(str(folder))


def test_files_that_are_not_read_are_named_with_the_way_out(folder):
    (folder / "flax_model.msgpack").write_bytes(b"a")
    with refused(r"flax_model.msgpack has weights of Flax.*save_pretrained"):
        read_weights(str(folder))
    training = folder / "training_args.bin"
    training.write_bytes(legacy_file(*[STATES["training_args.bin"][0], {}]))
    with refused(r"training_args.bin .*TrainingArguments"):
        read_weights(str(training))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "tf_model.h5", "a.pth"])
def test_weights_without_a_config_are_refused(name, tmp_path):
    (tmp_path / name).write_bytes(zip_file({"w": of_array("0", ARRAY)}, {"0": ARRAY}))
    for path in (tmp_path / name, *([] if name == "a.pth" else [tmp_path])):
        with refused(rf"no file .*config.json, which .*{name} needs"):
            read_weights(str(path))
    assert [each.name for each in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("place", ["../outside.bin", "/etc/hostname", "a/b.bin", ""])
def test_an_index_names_only_files_in_its_folder(place, folder):
    index = {"weight_map": {"w": place}}
    write_json(folder / "pytorch_model.bin.index.json", index)
    with refused("Only names without a folder"):
        read_weights(str(folder))
    for other, message in {
        7: "does not exist: .*/7",
        "config.json": "config.json",
    }.items():
        index = {"weight_map": {"w": other}}
        write_json(folder / "pytorch_model.bin.index.json", index)
        with refused(message):
            read_weights(str(folder))


READ = """
import sys
from bert_tf.conversion import read_weights
from bert_tf.errors import InputError
open("started")
for path in sys.argv[1:]:
    try:
        read_weights(path)
    except InputError as error:
        print(error)
"""


@pytest.mark.slow
def test_no_file_outside_of_the_checkpoint_is_opened(tmp_path):
    """The system calls of a process that reads hostile files, also those of HDF5."""
    if not shutil.which("strace"):
        pytest.skip("needs strace")
    paths = []
    for number, (name, case) in enumerate([*STATES.items(), *HDF5.items()]):
        folder = tmp_path / f"model-{number}"
        folder.mkdir()
        shutil.copy(HUGGING_FACE / "encoder/config.json", folder)
        if name in STATES:
            content = zip_file(case[0], {"0": ARRAY})
            (folder / "pytorch_model.bin").write_bytes(content)
        else:
            write_h5(folder / "tf_model.h5", case[0])
        paths.append(str(folder))
    (tmp_path / "started").touch()
    log = tmp_path / "calls.log"
    calls = "trace=open,openat,openat2,execve,unlink,rename,mkdir"
    command = [
        "strace",
        "-f",
        "-qq",
        "-o",
        log,
        "-e",
        calls,
        sys.executable,
        "-c",
        READ,
    ]
    result = subprocess.run(
        [*command, *paths], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert len(result.stdout.splitlines()) == len(paths)
    lines = log.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if '"started"' in line)
    opened = [line for line in lines[start + 1 :] if "ENOENT" not in line]
    # Lazily imported modules and the libraries of Python.
    package = str(pathlib.Path(bert_tf.__file__).parent)
    prefixes = {sys.prefix, sys.base_prefix, os.path.realpath(sys.prefix), package}
    own = (*prefixes, "/proc/", "/sys/", "/usr/lib", "/lib")
    for line in opened:
        called, _, arguments = line.partition("(")
        path = arguments.split('"')[1] if '"' in arguments else ""
        is_own = path.startswith((*own, str(tmp_path / "model-"))) or ".so" in path
        assert is_own and not called.endswith(("execve", "unlink", "rename")), line
    assert not (tmp_path / "hacked").exists()
