"""A bidirectional LSTM in NumPy, as Hochreiter and Schmidhuber and Keras define it.

The gates are in the order input, forget, cell, output; there are no peepholes.
"""

import numpy as np


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(x, weights):
    """Returns the outputs [T, U] of one direction for one sequence [T, W]."""
    kernel, recurrent_kernel, bias = weights
    units = len(recurrent_kernel)
    hidden, cell, outputs = np.zeros(units), np.zeros(units), []
    for row in x:
        gates = row @ kernel + hidden @ recurrent_kernel + bias
        i, f, g, o = (
            gates[start : start + units] for start in range(0, 4 * units, units)
        )
        cell = _sigmoid(f) * cell + _sigmoid(i) * np.tanh(g)
        hidden = _sigmoid(o) * np.tanh(cell)
        outputs.append(hidden)
    return np.array(outputs)


def bilstm(x, forward, backward):
    """Returns the outputs [T, 2 * U] of both directions for an unpadded sequence."""
    return np.concatenate([lstm(x, forward), lstm(x[::-1], backward)[::-1]], axis=1)
