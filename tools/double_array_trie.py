"""Builds a trie as a double array, in the format of tensorflow_text's normalizer.

Each used 32-bit number (unit) of the array is a node of the trie or the value of a key.
In a node, bits 0 to 7 hold the label: the byte that leads from the parent to the node.
Bit 8 is set if a key ends at the node. The bits from 10 on hold an offset. For a node
at index `node`, the child with label c is at index `node ^ offset ^ c`. If a key ends
at the node, the value of the key is at index `node ^ offset`, with the highest bit set.

Source: the layout of a unit in Darts-clone (Yata).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

# A node's children are in one block: the child indices differ only in the low byte.
_BLOCK = 256
_OPEN_BLOCKS = (
    16  # free units are searched in this number of blocks at the end of the array
)


def build(values: Mapping[bytes, int]) -> np.ndarray:
    """Builds the double array.

    Args:
        values: The value of each key, in [0, 2**31). Keys are not empty and have no
            zero bytes.

    Returns:
        uint32 [units]. The number of units is a multiple of 256, so that a look-up
        never reads beyond the end.
    """
    units = _Units()
    waiting: list[tuple[int, int, dict[int, Any]]] = [(0, 0, _nested(values))]
    while waiting:
        index, label, node = waiting.pop()
        base = units.allocate_children(sorted(node))
        unit = label | ((index ^ base) << 10)
        for child_label, child in node.items():
            if child_label == 0:
                unit |= 1 << 8
                units.values[base] = child | 1 << 31
            else:
                waiting.append((base ^ child_label, child_label, child))
        units.values[index] = unit
    return np.array(units.values, np.uint32)


def _nested(values: Mapping[bytes, int]) -> dict[int, Any]:
    """Returns the trie as nested dicts, one per node.

    The dict of a node has each child under the label of the child. If a key ends at the
    node, the dict has the value of the key under 0.
    """
    root: dict[int, Any] = {}
    for key, value in values.items():
        node = root
        for byte in key:
            node = node.setdefault(byte, {})
        node[0] = value
    return root


class _Units:
    """The units of the array, and for each unit whether it is free.

    Attributes:
        values: The 32-bit value of each unit.
    """

    def __init__(self) -> None:
        self.values: list[int] = [0] * _BLOCK
        self._free = [True] * _BLOCK
        self._free[0] = False  # the root node
        self._bases = {0}

    def allocate_children(self, labels: list[int]) -> int:
        """Allocates a unit for each child of a node.

        Args:
            labels: The labels of the children, in [0, 256).

        Returns:
            The base: the child with label c is at index `base ^ c`. No two nodes have
            the same
                base; otherwise a look-up of label c could reach a child of another
                node.
        """
        start = max(0, len(self.values) - _OPEN_BLOCKS * _BLOCK)
        for index in range(start, len(self.values)):
            base = index ^ labels[0]
            if (
                self._free[index]
                and base not in self._bases
                and self._fits(base, labels)
            ):
                break
        else:
            base = len(self.values)
            self.values += [0] * _BLOCK
            self._free += [True] * _BLOCK
        self._bases.add(base)
        for label in labels:
            self._free[base ^ label] = False
        return base

    def _fits(self, base: int, labels: list[int]) -> bool:
        return all(self._free[base ^ label] for label in labels)
