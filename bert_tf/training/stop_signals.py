"""Records the signals after which a run saves a checkpoint and stops."""

import contextlib
import logging
import signal
from collections.abc import Iterator
from typing import Any

_LOGGER = logging.getLogger(__name__)


@contextlib.contextmanager
def record_stop_signals(enabled: bool) -> Iterator[list[int]]:
    """Yields a list to which the number of each received stop signal is appended.

    A second signal of the same kind has its normal effect. After the `with` block, the
    handlers of the caller are in place again. SIGHUP stays ignored in a program that
    `nohup` started. If `enabled` is False, there are no handlers, and the list stays
    empty.
    """
    received: list[int] = []
    if not enabled:
        yield received
        return

    def record(number: int, _: Any) -> None:
        received.append(number)
        restore(number)
        _LOGGER.info("Stopping after this step. Repeat the signal to stop at once.")

    def restore(number: int) -> None:
        # `getsignal` returns None for a handler that was not installed by Python.
        handler = previous[number]
        signal.signal(number, signal.SIG_DFL if handler is None else handler)

    numbers: list[int] = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    previous = {number: signal.getsignal(number) for number in numbers}
    try:
        for number in numbers:
            signal.signal(number, record)
        yield received
    finally:
        for number in numbers:
            restore(number)
