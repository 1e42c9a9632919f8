"""google-research/bert's optimizer and schedule, AdamW and LAMB in plain NumPy."""

import re

import numpy as np


def learning_rate(step, peak, total, warmup):
    """The schedule of google-research/bert.

    The learning rate drops at the end of warm-up.
    """
    if step < warmup:
        return peak * step / warmup
    return peak * (1 - min(step, total) / total)


def rate(kind, step, peak, total, warmup):
    """The schedule of google-research/bert ("released"), or one of `continuous`."""
    if kind == "released":
        return learning_rate(step, peak, total, warmup)
    return continuous(kind, step, peak, total, warmup)


def adam_weight_decay(name, weight, gradient, slots, rate, betas=(0.9, 0.999)):
    """google-research/bert's AdamWeightDecayOptimizer, which has no bias correction."""
    m = betas[0] * slots[0] + (1 - betas[0]) * gradient
    v = betas[1] * slots[1] + (1 - betas[1]) * gradient**2
    update = m / (np.sqrt(v) + 1e-6)
    if not re.search("LayerNorm|layer_norm|bias", name):
        update = update + 0.01 * weight
    return weight - rate * update, (m, v)


def clip(gradients, rows, limit):
    """Clips by the global norm, as google-research/bert does.

    Returns gradients and norm.

    A gradient with an entry in `rows` is sparse: its norm is that of the rows of all
    look-ups, before the rows of the same word are added.
    """
    squares = [
        np.sum(np.square(rows.get(name, value))) for name, value in gradients.items()
    ]
    norm = np.sqrt(np.sum(squares))
    factor = 1 if limit is None else limit / max(norm, limit)
    return {name: factor * value for name, value in gradients.items()}, norm


def continuous(kind, step, peak, total, warmup):
    """Schedules that reach the peak at the end of warm-up, then decay or stay there."""
    if step < warmup:
        return peak * step / warmup
    done = min((step - warmup) / (total - warmup), 1) if warmup < total else 1
    return (
        peak
        * {"linear": 1 - done, "cosine": (1 + np.cos(np.pi * done)) / 2, "constant": 1}[
            kind
        ]
    )


def adamw(weight, gradient, slots, rate, decay, count, betas=(0.9, 0.999)):
    """AdamW (Loshchilov and Hutter, algorithm 2).

    `rate` is alpha times eta in that paper.
    """
    m = betas[0] * slots[0] + (1 - betas[0]) * gradient
    v = betas[1] * slots[1] + (1 - betas[1]) * gradient**2
    update = m / (1 - betas[0] ** count) / (np.sqrt(v / (1 - betas[1] ** count)) + 1e-6)
    return weight - rate * (update + decay * weight), (m, v)


def lamb(weight, gradient, slots, rate, decay, count, betas=(0.9, 0.999)):
    """LAMB (You et al., algorithm 2). A weight without decay gets no trust ratio."""
    m = betas[0] * slots[0] + (1 - betas[0]) * gradient
    v = betas[1] * slots[1] + (1 - betas[1]) * gradient**2
    update = m / (1 - betas[0] ** count) / (np.sqrt(v / (1 - betas[1] ** count)) + 1e-6)
    if not decay:
        return weight - rate * update, (m, v)
    update = update + decay * weight
    norms = np.linalg.norm(weight), np.linalg.norm(update)
    trust = norms[0] / norms[1] if min(norms) > 0 else 1
    return weight - rate * trust * update, (m, v)
