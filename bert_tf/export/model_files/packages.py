"""The packages that write and run files: a check that they are installed, and their errors."""

import contextlib
import importlib
import logging
from collections.abc import Iterator

from bert_tf.errors import InputError
from bert_tf.export.gate_process import GateError


def check_installed(extra: str, *modules: str) -> None:
    """Checks that modules can be imported.

    Args:
        extra: The extra of bert-tf that installs their packages.
        *modules: The names of the modules.

    Raises:
        InputError: One of them cannot be imported.
    """
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            name = module.partition(".")[0].replace("_", "-")
            raise InputError(
                f"Files of this format need the package {name}, which is not "
                f"installed. Install it: pip install 'bert-tf[{extra}]'."
            ) from error


@contextlib.contextmanager
def as_gate_error(format: str) -> Iterator[None]:
    """Converts the errors of converters, which have many classes, and hides their warnings.

    Args:
        format: The name of the format.

    Raises:
        GateError: The block raised an error.
    """
    disabled = logging.root.manager.disable
    logging.disable(max(disabled, logging.WARNING))
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split())
        raise GateError(
            f"{format} cannot represent the model: {reason:.300} Nothing was exported."
        ) from error
    finally:
        logging.disable(disabled)
