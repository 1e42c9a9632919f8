"""A trie as a double array, in the layout that tensorflow_text's normalizer reads.

Needed only to make the tables. Imports numpy.

Each unit is 32 bits: the label of the edge into the node (bits 0 to 7), whether the node has a
value (bit 8), and from bit 10 the offset to its children: the child under label c stands at
`node ^ offset ^ c`, the value at `node ^ offset`, with the highest bit set.

Source: Darts-clone (Yata), the layout of a unit.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

_BLOCK = 256  # children of a node lie in one block, as their places differ by a byte
_OPEN_BLOCKS = 16  # blocks that are searched for room


def build(values: Mapping[bytes, int]) -> np.ndarray:
    """Builds the trie.

    Args:
        values: For each key, not empty and without zero bytes, its value in [0, 2**31).

    Returns:
        uint32 [units]; a multiple of 256, so that no look-up leaves the array.
    """
    layout = _Layout()
    waiting: list[tuple[int, int, dict[int, Any]]] = [(0, 0, _nested(values))]
    while waiting:
        place, label, node = waiting.pop()
        base = layout.place_children(sorted(node))
        unit = label | ((place ^ base) << 10)
        for child, below in node.items():
            if child == 0:
                unit |= 1 << 8
                layout.units[base] = below | 1 << 31
            else:
                waiting.append((base ^ child, child, below))
        layout.units[place] = unit
    return np.array(layout.units, np.uint32)


def _nested(values: Mapping[bytes, int]) -> dict[int, Any]:
    """The trie as nested dicts from byte to node; label 0 holds a value."""
    root: dict[int, Any] = {}
    for key, value in values.items():
        node = root
        for byte in key:
            node = node.setdefault(byte, {})
        node[0] = value
    return root


class _Layout:
    """The units placed so far, and which places are free."""

    def __init__(self) -> None:
        self.units: list[int] = [0] * _BLOCK
        self._free = [True] * _BLOCK
        self._free[0] = False  # the root
        self._bases = {0}

    def place_children(self, labels: list[int]) -> int:
        """Takes the places for children under the given labels; returns their base.

        A base belongs to one node only: this is what keeps a look-up from finding another
        node's child under the same label.
        """
        start = max(0, len(self.units) - _OPEN_BLOCKS * _BLOCK)
        for place in range(start, len(self.units)):
            base = place ^ labels[0]
            if self._free[place] and base not in self._bases and self._fits(base, labels):
                break
        else:
            base = len(self.units)
            self.units += [0] * _BLOCK
            self._free += [True] * _BLOCK
        self._bases.add(base)
        for label in labels:
            self._free[base ^ label] = False
        return base

    def _fits(self, base: int, labels: list[int]) -> bool:
        return all(self._free[base ^ label] for label in labels)
