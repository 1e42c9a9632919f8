"""Reads the tensors in files of `torch.save`, without PyTorch and without `pickle`.

A file of `torch.save` contains a pickle, which is a program: a list of instructions
(opcodes) for a machine with a stack. `pickle` lets this program import any function and
call it. Here, `_run` interprets the instructions. It knows only the instructions that
dicts of tensors need, and never imports or looks up anything: it compares the names of
functions and classes with the few names that such files contain.

The values of the tensors are in storages, outside of the pickle. There are two forms:

    zip     an archive with data.pkl, byteorder and data/<key> for each storage
    legacy  (before PyTorch 1.6) five pickles: a magic number, the version, facts about
            the machine, the dict, and the list of keys; then the storages in the order
            of the keys, each as an int64 number of elements and the elements

Source: the functions `save`, `_save` and `_legacy_save` of torch/serialization.py.
"""

import io
import math
import pickletools
import struct
import zipfile
import zlib
from collections.abc import Iterable
from typing import IO, Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.conversion.checkpoint_contents import to_float32
from bert_tf.errors import InputError
from bert_tf.storage import files

_ZIP_START = b"PK\3\4"
_LEGACY_START = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
# A dict of 1,000 tensors has about 45,000 opcodes.
_MAX_OPCODES = 1 << 18
_DTYPES: dict[str, Any] = {
    "torch FloatStorage": "<f4",
    "torch HalfStorage": "<f2",
    "torch BFloat16Storage": tf.bfloat16.as_numpy_dtype,
    "torch DoubleStorage": "<f8",
    "torch LongStorage": "<i8",
    "torch IntStorage": "<i4",
    "torch ByteStorage": "u1",
    "torch BoolStorage": "?",
}
_FUNCTIONS = (
    "collections OrderedDict",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_parameter",
)
# The keys under which training programs store the dict of weights.
_NESTED = ("state_dict", "model_state_dict", "model")
_LITERALS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
_WITH_VALUE = (
    "BININT",
    "BININT1",
    "BININT2",
    "LONG1",
    "BINFLOAT",
    "BINUNICODE",
    "BINSTRING",  # strings of Python 2
    "SHORT_BINSTRING",
)


class _Name(str):
    """The name of a class or a function, which is never looked up."""


class _Storage(NamedTuple):
    """The type and size of a one-dimensional array, whose numbers the file has at `key`."""

    dtype: np.dtype[Any]
    key: str
    size: int


class _Tensor(NamedTuple):
    """A part of a storage. Offset and strides count elements."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_tensors(path: str) -> dict[str, np.ndarray]:
    """Reads the dict of tensors in a file of `torch.save`, with floats as float32.

    The dict may be the value of a key of `_NESTED`. Its values that are not tensors are
    ignored, but a file with other objects, such as a model, raises `InputError`. The
    arrays have any strides. Tensors with the same part of a storage become one array.
    """
    content = files.read_bytes(path)
    read = _read_zip if content.startswith(_ZIP_START) else _read_legacy
    try:
        state, storages = read(content)
        return _arrays(_tensors_by_name(state), storages, len(content))
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
        NotImplementedError,
        OSError,
        struct.error,
        zipfile.BadZipFile,
    ) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(
            f"{path} cannot be read as a file of torch.save: {reason:.200}. If it is "
            "damaged, copy it again from its source; otherwise save model.state_dict() "
            "with torch.save."
        ) from error


def has_start(path: str) -> bool:
    """Whether a file starts with the bytes with which files of `torch.save` start."""
    with files.gfile().GFile(path, "rb") as file:
        return file.read(len(_LEGACY_START)).startswith((_ZIP_START, _LEGACY_START))


def _read_zip(content: bytes) -> tuple[Any, dict[str, np.ndarray]]:
    """Returns the object in a file of the zip form, and the storages by key."""
    # All entries are in one folder, which has any name.
    entries = {
        each.filename.partition("/")[2]: each
        for each in zipfile.ZipFile(io.BytesIO(content)).infolist()
    }

    def read(name: str) -> memoryview:
        # The entry is not copied. It follows a header of 30 bytes and two names, whose
        # lengths are in the header.
        entry = entries[name]
        lengths = struct.unpack_from("<HH", content, entry.header_offset + 26)
        start = entry.header_offset + 30 + sum(lengths)
        data = memoryview(content)[start : start + entry.file_size]

        is_complete = len(data) == entry.file_size and zlib.crc32(data) == entry.CRC
        if entry.compress_type or not is_complete:
            raise ValueError(f"the entry {name} is damaged or compressed")
        return data

    if "byteorder" in entries and read("byteorder") != b"little":
        raise ValueError("its numbers are in big-endian order")

    storages: dict[str, _Storage] = {}
    state = _run(io.BytesIO(read("data.pkl")), storages)
    return state, {
        key: _values(each, read(f"data/{key}")) for key, each in storages.items()
    }


def _read_legacy(content: bytes) -> tuple[Any, dict[str, np.ndarray]]:
    """Returns the object in a file of the legacy form, and the storages by key."""
    if not content.startswith(_LEGACY_START):
        raise ValueError("it starts with other bytes")
    stream = io.BytesIO(content)
    stream.seek(len(_LEGACY_START))

    storages: dict[str, _Storage] = {}
    version, machine, state, keys = (_run(stream, storages) for _ in range(4))
    if version != 1001 or machine.get("little_endian") is not True:
        raise ValueError("it has another version or big-endian numbers")

    arrays = {}
    position = stream.tell()
    for key in keys:
        (count,) = struct.unpack_from("<q", content, position)
        if count != storages[key].size:
            raise ValueError(f"the storage {key} has another size than its tensors")
        start = position + 8
        position = start + count * storages[key].dtype.itemsize
        arrays[key] = _values(storages[key], memoryview(content)[start:position])
    return state, arrays


def _values(storage: _Storage, data: memoryview) -> np.ndarray:
    if len(data) != storage.size * storage.dtype.itemsize:
        raise ValueError(f"the storage {storage.key} has another size than its tensors")
    return np.frombuffer(data, storage.dtype)


def _run(stream: IO[bytes], storages: dict[str, _Storage]) -> Any:
    """Interprets the next pickle of a stream, and adds its storages to `storages`.

    Returns simple types of Python, `_Name`, `_Storage` or `_Tensor`. Nothing here is
    recursive, so nested objects cannot exhaust the stack.

    Raises:
        ValueError, LookupError, TypeError: The pickle is not valid, or has opcodes,
            names or calls that a dict of tensors does not need.
    """
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[int, Any] = {}

    def pop_to_mark() -> list[Any]:
        start = marks.pop()
        items = stack[start:]
        del stack[start:]
        return items

    value: Any
    for number, (opcode, value, _) in enumerate(pickletools.genops(stream)):
        if number == _MAX_OPCODES:
            raise ValueError(f"it has more than {_MAX_OPCODES} opcodes")
        match opcode.name:
            case "PROTO" | "STOP":
                pass
            case "MARK":
                marks.append(len(stack))
            case name if name in _LITERALS:
                stack.append(_LITERALS[name])
            case name if name in _WITH_VALUE:
                stack.append(value)
            case name if name in _EMPTY:
                stack.append(_EMPTY[name]())
            case "TUPLE":
                stack.append(tuple(pop_to_mark()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3" as name:
                items = [stack.pop() for _ in range(int(name[-1]))]
                stack.append(tuple(reversed(items)))
            case "APPEND":
                stack[-2].append(stack.pop())
            case "APPENDS":
                items = pop_to_mark()
                stack[-1].extend(items)
            case "SETITEM":
                item = stack.pop()
                _set_items(stack[-2], [(stack.pop(), item)])
            case "SETITEMS":
                items = pop_to_mark()
                _set_items(stack[-1], zip(items[::2], items[1::2], strict=True))
            case "BINPUT" | "LONG_BINPUT":
                memo[value] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(memo[value])
            case "GLOBAL":
                stack.append(_known_name(value))
            case "BINPERSID":
                storage = _storage(stack.pop())
                if storages.setdefault(storage.key, storage) != storage:
                    raise ValueError(f"it has two storages {storage.key}")
                stack.append(storage)
            case "REDUCE":
                arguments = stack.pop()
                stack.append(_call(stack.pop(), arguments))
            case "BUILD":  # the attributes of a dict, such as versions of modules
                stack.pop()
            case name:
                raise ValueError(f"it has the opcode {name}")
    return stack.pop()


def _set_items(target: Any, items: Iterable[tuple[Any, Any]]) -> None:
    if type(target) is not dict:
        raise ValueError("it sets items of another object than a dict")
    for key, value in items:
        # Only these types have a hash that is not computed recursively.
        if type(key) not in (str, int) or key in target:
            raise ValueError("a dict has a key that is repeated, or not a string")
        target[key] = value


def _known_name(name: str) -> _Name:
    if name not in (*_DTYPES, *_FUNCTIONS):
        raise ValueError(
            f"it contains {name.replace(' ', '.'):.80}, so it is not a dict of tensors "
            "but, for example, a whole model or the arguments of a training; save "
            "model.state_dict() instead"
        )
    return _Name(name)


def _storage(parts: Any) -> _Storage:
    """Returns the storage that a persistent id of the pickle describes, given its parts."""
    match parts:
        case "storage", _Name() as name, str(key), _, int(count), *view if not any(
            view
        ):
            return _Storage(np.dtype(_DTYPES[name]), key, count)
    raise ValueError("it has a storage of unknown kind")


def _call(function: Any, arguments: Any) -> Any:
    """Returns the result of a call of one of the few known functions, without calling it."""
    match function, arguments:
        case _Name("collections OrderedDict"), tuple():
            values: dict[Any, Any] = {}
            _set_items(values, *(arguments or ([],)))
            return values
        case (
            _Name("torch._utils _rebuild_tensor_v2"),
            (_Storage() as storage, int(offset), tuple(shape), tuple(strides), *_),
        ):
            return _Tensor(storage, offset, shape, strides)
        case _Name("torch._utils _rebuild_parameter"), (_Tensor() as tensor, *_):
            return tensor
    raise ValueError("it calls an object that is not a function for tensors")


def _tensors_by_name(state: Any) -> dict[str, _Tensor]:
    # Tensors next to a dict of tensors, such as a loss, are no weights.
    nested = {key: values for key in _NESTED if (values := _tensors_in(state.get(key)))}
    if len(nested) > 1:
        raise ValueError(f"it has dicts of tensors at {' and '.join(nested)}")

    (tensors,) = nested.values() if nested else (_tensors_in(state),)
    if not tensors:
        raise ValueError("it has no dict of tensors by name")
    if not all(name.isprintable() for name in tensors):
        raise ValueError("the name of a tensor has characters that are not printable")
    return tensors


def _tensors_in(values: Any) -> dict[str, _Tensor]:
    items = values.items() if isinstance(values, dict) else ()
    return {str(name): value for name, value in items if isinstance(value, _Tensor)}


def _arrays(
    tensors: dict[str, _Tensor], storages: dict[str, np.ndarray], limit: int
) -> dict[str, np.ndarray]:
    """Returns the tensors as arrays.

    Raises `ValueError` if the arrays together would have more than `limit` bytes, which
    is the size of the file. They can only if tensors overlap in the same storage.
    """
    # A tied weight occurs under two names.
    arrays = {
        each: _view(each, storages[each.storage.key]) for each in tensors.values()
    }
    if sum(each.nbytes for each in arrays.values()) > limit:
        raise ValueError("its tensors have more bytes than the file")
    arrays = {tensor: to_float32(array) for tensor, array in arrays.items()}
    return {name: arrays[tensor] for name, tensor in tensors.items()}


def _view(tensor: _Tensor, values: np.ndarray) -> np.ndarray:
    """Returns a tensor as a view of its storage, after a check that it is inside the storage."""
    numbers = (tensor.offset, *tensor.shape, *tensor.strides)
    if len(tensor.shape) != len(tensor.strides) or not all(
        type(number) is int and number >= 0 for number in numbers
    ):
        raise ValueError("the shape of a tensor is not valid")
    if not math.prod(tensor.shape):
        return np.empty(tensor.shape, values.dtype)

    # From the innermost axis, the steps of each axis must exceed the extent of the ones
    # before it. Otherwise, elements would overlap.
    extent = 1
    for stride, size in sorted(zip(tensor.strides, tensor.shape, strict=True)):
        if size > 1:
            if stride < extent:
                raise ValueError("the elements of a tensor overlap")
            extent += stride * (size - 1)

    if tensor.offset + extent > len(values):
        raise ValueError("a tensor has elements outside of its storage")
    strides = [number * values.itemsize for number in tensor.strides]
    return np.lib.stride_tricks.as_strided(
        values[tensor.offset :], tensor.shape, strides, writeable=False
    )
