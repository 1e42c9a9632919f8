"""Checks that the packages that write and run files are installed."""

import importlib

from bert_tf.errors import InputError


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
                f"Files of this format need the package {name}, which is not installed. Install "
                f"it: pip install 'bert-tf[{extra}]'."
            ) from error
