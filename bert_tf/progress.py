"""Reports the progress of long work, as log lines or a bar, and runs work in threads."""

import collections
import concurrent.futures
import dataclasses
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import tqdm

Item = TypeVar("Item")
Result = TypeVar("Result")
_LOGGER = logging.getLogger(__name__)
_SECS_BETWEEN_LINES = 10.0
_MIN_SECS_OF_RATE = 0.1
_draws_bars = False


def draw_bars() -> None:
    """Makes every later `Progress` of this process draw a bar on stderr, not log lines.

    Main programs whose stderr is a terminal call this function; libraries must not.
    """
    global _draws_bars
    _draws_bars = True


@dataclasses.dataclass
class Progress:
    """Context manager that counts completed units of work and reports the count.

    A line is logged at level INFO every 10 seconds and at the end, with the rate and
    the remaining time. After a call of `draw_bars`, a bar shows these numbers instead.
    Nothing is shown if the logger of this module is not enabled for INFO, which is
    Python's default.

    Attributes:
        description: Description of the work, such as "writing records".
        total: The total number of units, or None if unknown.
        unit: Name of a unit, such as "sentences".
        done: The number of units that an earlier run completed.
        log_end: Whether to log a line at the end, even if the work took little time.
    """

    description: str
    total: int | None
    unit: str
    done: int = 0
    log_end: bool = True

    def __post_init__(self) -> None:
        self._count = self.done
        self._start = self._last_line = time.monotonic()
        self._bar = None
        if _draws_bars and _LOGGER.isEnabledFor(logging.INFO):
            self._bar = tqdm.tqdm(
                total=self.total,
                desc=self.description,
                unit=f" {self.unit}",
                initial=self.done,
                dynamic_ncols=True,
            )

    def update(self, units: int, note: str = "") -> None:
        """Adds completed units. If a report is due, it ends with `note`, such as the loss."""
        self._count += units
        if self._bar is not None:
            if note:
                self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(units)
        elif time.monotonic() - self._last_line >= _SECS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            self._log(note)

    def _log(self, note: str) -> None:
        secs = max(time.monotonic() - self._start, 1e-9)
        rate = (self._count - self.done) / secs
        # After less time, the rate is too inexact to show.
        speed = f", {rate:,.1f} {self.unit}/s" if secs >= _MIN_SECS_OF_RATE else ""
        share = left = ""
        if self.total is not None:
            share = f" of {self.total:,}"
            if rate > 0 and self._count < self.total:
                left = f", {(self.total - self._count) / rate:,.0f} s left"
        text = f"{self.description}: {self._count:,}{share} {self.unit}{speed}{left}"
        _LOGGER.info("%s", f"{text}, {note}" if note else text)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()
        elif kind is None and self.log_end:
            self._log("done")


def map_in_order(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    threads: int = os.cpu_count() or 1,
) -> Iterator[Result]:
    """Applies a function in several threads, and yields the results in item order.

    At most two items per thread are in memory.
    """
    waiting: collections.deque[concurrent.futures.Future[Result]] = collections.deque()
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) >= 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
