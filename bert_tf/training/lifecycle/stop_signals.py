"""Handles Ctrl-C, SIGTERM and SIGHUP.

The first signal is recorded, so that the run can save a checkpoint and end.
"""

import contextlib
import logging
import signal
import threading
from collections.abc import Iterator
from typing import Any

from bert_tf.errors import InputError

_LOGGER = logging.getLogger(__name__)


@contextlib.contextmanager
def record_stop_signals(enabled: bool) -> Iterator[list[int]]:
    """Yields a list to which the number of the first stop signal is appended.

    A second signal of the same kind has its normal effect. Afterwards, the handlers of the caller
    are in place again. SIGHUP stays ignored in a program that `nohup` started.

    Args:
        enabled: Whether to install the handlers. If False, the list stays empty.

    Raises:
        InputError: `enabled` is True outside the main thread, where Python cannot handle signals.
    """
    received: list[int] = []
    if not enabled:
        yield received
        return
    if threading.current_thread() is not threading.main_thread():
        raise InputError(
            "stop_on_signals=True needs training in the main thread, because Python handles "
            f"signals only there. Received: the thread {threading.current_thread().name!r}. Train "
            "in the main thread or give stop_on_signals=False."
        )

    def record(number: int, _: Any) -> None:
        received.append(number)
        restore(number)
        _LOGGER.info("Stopping after this step. Repeat the signal to stop at once.")

    def restore(number: int) -> None:
        # `getsignal` returns None for a handler that was not installed by Python.
        handler = previous[number]
        signal.signal(number, signal.SIG_DFL if handler is None else handler)

    numbers = [int(signal.SIGINT), int(signal.SIGTERM)]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(int(signal.SIGHUP))
    previous = {number: signal.getsignal(number) for number in numbers}
    try:
        for number in previous:
            signal.signal(number, record)
        yield received
    finally:
        for number in previous:
            restore(number)
