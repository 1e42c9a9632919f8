"""Writes files of `torch.save` byte by byte, valid and hostile ones, without PyTorch.

Source: the functions `_save` and `_legacy_save` of torch/serialization.py, and
Lib/pickletools.py for the opcodes.
"""

import io
import struct
import zipfile
from typing import NamedTuple

import ml_dtypes
import numpy as np

STORAGES = {
    "<f4": "FloatStorage",
    "<f2": "HalfStorage",
    "<f8": "DoubleStorage",
    "<i8": "LongStorage",
    np.dtype(ml_dtypes.bfloat16): "BFloat16Storage",
}
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C


class Name(NamedTuple):
    """The name of a function or a class."""

    module: str
    name: str


class Call(NamedTuple):
    """The call of a function."""

    function: object
    arguments: tuple


class Persistent(NamedTuple):
    """An object outside of the pickle."""

    parts: tuple


class Raw(NamedTuple):
    """Opcodes as they are."""

    opcodes: bytes


def opcodes_of(value) -> bytes:
    """Returns the opcodes that create a value."""
    match value:
        case Raw():
            return value.opcodes
        case Name():
            return f"c{value.module}\n{value.name}\n".encode()
        case Call():
            return opcodes_of(value.function) + opcodes_of(value.arguments) + b"R"
        case Persistent():
            return opcodes_of(value.parts) + b"Q"
        case None:
            return b"N"
        case bool():
            return b"\x88" if value else b"\x89"
        case int():
            digits = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            return b"\x8a" + bytes([len(digits)]) + digits
        case str():
            text = value.encode("utf-8", "surrogatepass")
            return b"X" + struct.pack("<I", len(text)) + text
        case tuple():
            return b"(" + b"".join(map(opcodes_of, value)) + b"t"
        case list():
            return b"](" + b"".join(map(opcodes_of, value)) + b"e"
        case dict():
            items = [opcodes_of(each) for pair in value.items() for each in pair]
            return b"}(" + b"".join(items) + b"u"
    raise TypeError(type(value))


def pickled(value) -> bytes:
    """Returns a pickle of protocol 2."""
    return b"\x80\x02" + opcodes_of(value) + b"."


def storage(key, array, count=None):
    """Returns the reference to a storage."""
    name = next(n for dtype, n in STORAGES.items() if array.dtype == dtype)
    count = array.size if count is None else count
    return Persistent(("storage", Name("torch", name), key, "cpu", count))


def tensor(stored, shape, strides, offset=0):
    """Returns the call that creates a tensor; strides count elements."""
    hooks = Call(Name("collections", "OrderedDict"), ())
    function = Name("torch._utils", "_rebuild_tensor_v2")
    return Call(function, (stored, offset, tuple(shape), tuple(strides), False, hooks))


def of_array(key, array):
    """Returns the call that creates a tensor with a storage of its own."""
    strides = [each // array.itemsize for each in np.ascontiguousarray(array).strides]
    return tensor(storage(key, array), array.shape, strides)


def zip_file(state, storages, more=(), compression=zipfile.ZIP_STORED) -> bytes:
    """Returns a file of the zip form.

    Args:
        state: The object.
        storages: Dict from key to array or bytes.
        more: Pairs of the name and the content of further entries.
        compression: As in `zipfile`.
    """
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr("archive/data.pkl", pickled(state))
        archive.writestr("archive/byteorder", b"little")
        for key, array in storages.items():
            data = array if isinstance(array, bytes) else array.tobytes()
            archive.writestr(f"archive/data/{key}", data)
        for name, content in more:
            archive.writestr(name, content)
        archive.writestr("archive/version", b"3\n")
    return file.getvalue()


def legacy_file(state, storages, little_endian=True) -> bytes:
    """Returns a file of the legacy form, whose arguments are as in `zip_file`."""
    machine = {"protocol_version": 1001, "little_endian": little_endian}
    parts = [LEGACY_MAGIC, 1001, machine, state, list(storages)]
    data = [
        struct.pack("<q", array.size) + array.tobytes() for array in storages.values()
    ]
    return b"".join([*map(pickled, parts), *data])


def state_of(arrays):
    """Returns the state and the storages of arrays by name."""
    storages = {str(number): array for number, array in enumerate(arrays.values())}
    state = {
        name: of_array(key, array)
        for (name, array), key in zip(arrays.items(), storages, strict=True)
    }
    return state, storages
