"""The optimizer and schedule of google-research/bert, by their rules, in NumPy."""

import re

import numpy as np


def learning_rate(step, peak, total, warmup):
    if step < warmup:
        return peak * step / warmup
    return peak * (1 - min(step, total) / total)


def adam_weight_decay(name, weight, gradient, slots, rate):
    m = 0.9 * slots[0] + 0.1 * gradient
    v = 0.999 * slots[1] + 0.001 * gradient**2
    update = m / (np.sqrt(v) + 1e-6)
    if not re.search("LayerNorm|layer_norm|bias", name):
        update = update + 0.01 * weight
    return weight - rate * update, (m, v)
