"""Progress display: a bar on a terminal, plain lines in a log. Imports nothing from bert-tf."""

import sys
import time
from types import TracebackType

import tqdm

_SECS_BETWEEN_LINES = 10.0


class Progress:
    """Context manager that counts completed units of work and shows the count on stderr.

    On a terminal the display is a bar with the rate and the remaining time. If stderr is not a
    terminal, a line is printed every 10 seconds and at the end, so that a log stays readable.

    Args:
        description: Description of the work, such as "writing records".
        total: The total number of units, or None if unknown.
        unit: Name of a unit, such as "sentences".
        done: The number of units that an earlier run completed.
    """

    def __init__(self, description: str, total: int | None, unit: str, done: int = 0) -> None:
        self._description, self._total, self._unit = description, total, unit
        self._count = self._initial = done
        self._start = self._last_line = time.monotonic()
        self._bar = (
            tqdm.tqdm(
                total=total, desc=description, unit=f" {unit}", initial=done, dynamic_ncols=True
            )
            if sys.stderr.isatty()
            else None
        )

    def update(self, units: int, note: str = "") -> None:
        """Adds completed units. The end of the line shows `note`, such as the loss."""
        self._count += units
        if self._bar is not None:
            if note:
                self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(units)
        elif time.monotonic() - self._last_line >= _SECS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            self._print(note)

    def _print(self, note: str) -> None:
        secs = max(time.monotonic() - self._start, 1e-9)
        rate = (self._count - self._initial) / secs
        share = f" of {self._total:,}" if self._total is not None else ""
        left = ""
        if self._total is not None and rate > 0 and self._count < self._total:
            left = f", {(self._total - self._count) / rate:,.0f} s left"
        text = f"{self._description}: {self._count:,}{share} {self._unit}, {rate:,.1f}/s{left}"
        print(f"{text}, {note}" if note else text, file=sys.stderr, flush=True)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()
        elif kind is None:
            self._print("done")
