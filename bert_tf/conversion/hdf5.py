"""Reads and writes the arrays in HDF5 files, the format of `.h5` files of Keras."""

import io
from collections.abc import Mapping

import h5py  # type: ignore[import-untyped]
import numpy as np
import tensorflow as tf

from bert_tf.conversion.checkpoint_contents import to_float32
from bert_tf.errors import InputError
from bert_tf.storage import files


def read_arrays(path: str) -> dict[str, np.ndarray]:
    """Returns all arrays of an HDF5 file by their paths in it, with floats as float32.

    Other files to which the HDF5 file refers are not opened. Raises `InputError` for
    links, for arrays that are compressed or incomplete, and for a whole model that
    `model.save` of Keras wrote.
    """
    content = io.BytesIO(files.read_bytes(path))
    links: dict[str, object] = {}
    arrays = {}
    try:
        with h5py.File(content) as file:
            _check_is_no_model(path, file)
            file.visititems_links(links.__setitem__)
            for name, link in links.items():
                item = file[name] if isinstance(link, h5py.HardLink) else None
                if item is None or isinstance(item, h5py.Dataset):
                    _check_stored(path, name, item)
                    arrays[name] = _array(item)
    except InputError:
        raise
    except Exception as error:  # h5py raises many types for damaged files
        raise InputError(f"{path} cannot be read as HDF5: {error}.") from error
    return arrays


def check_is_no_model(path: str) -> None:
    """Checks that a file is not a whole model that `model.save` of Keras wrote.

    A damaged file passes; `read_arrays` reports the damage.
    """
    content = io.BytesIO(files.read_bytes(path))
    try:
        with h5py.File(content) as file:
            _check_is_no_model(path, file)
    except InputError:
        raise
    except Exception:  # h5py raises many types for damaged files
        return


def _check_is_no_model(path: str, file: h5py.File) -> None:
    if "model_config" in file.attrs:
        raise InputError(
            f"{path} is a model that Keras saved in its old format. Save it with "
            "model.save as a .keras file, and load that with bert_tf.load, or write a "
            "checkpoint with bert_tf.save_checkpoint."
        )


def _check_stored(path: str, name: str, item: h5py.Dataset | None) -> None:
    """Checks that the file itself contains an array, uncompressed; `item` is None for a link."""
    if item is None or item.external or item.is_virtual:
        reason = "is a link to another place"
    # The stated size of a compressed or incomplete array may be any number.
    elif item.id.get_storage_size() < item.nbytes:
        reason = "is compressed or incomplete"
    else:
        return
    raise InputError(
        f"{path}: {name} {reason}. Only arrays that the file itself contains, "
        "uncompressed, are read. Save the model again."
    )


def _array(item: h5py.Dataset) -> np.ndarray:
    array = np.asarray(item[()])
    # Keras stores bfloat16 as two bytes without a type.
    if item.attrs.get("dtype") == "bfloat16":
        array = array.view(tf.bfloat16.as_numpy_dtype)
    return to_float32(array)


def write_arrays(path: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays to an HDF5 file. The keys are paths in it, such as `layers/dense/vars/0`."""
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        for name, array in arrays.items():
            file[name] = array
    files.write_bytes(path, content.getvalue())
