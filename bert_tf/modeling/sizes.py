"""What a model of a config costs: parameters, operations of a step, memory. Imports `config` only.

Shape letters as in the package; N = B*S tokens.
"""

from bert_tf.config import BertConfig

_FLOAT32 = 4
_ELEMENT_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def parameters(config: BertConfig) -> dict[str, int]:
    """Trainable numbers of each part of a pretraining model.

    Returns:
        "embeddings", "blocks" and "pooler", which together are the encoder; "masked_lm_head"
        without the tied word embeddings; "next_sentence_head".
    """
    hidden, wide = config.hidden_size, config.intermediate_size
    norm = 2 * hidden
    rows = config.vocab_size + config.type_vocab_size + config.max_position_embeddings
    attention = 4 * (hidden * hidden + hidden) + norm
    feed_forward = 2 * hidden * wide + wide + hidden + norm
    return {
        "embeddings": rows * hidden + norm,
        "blocks": config.num_hidden_layers * (attention + feed_forward),
        "pooler": hidden * hidden + hidden,
        "masked_lm_head": hidden * hidden + hidden + norm + config.vocab_size,
        "next_sentence_head": 2 * hidden + 2,
    }


def forward_flops(
    config: BertConfig,
    batch_size: int,
    length: int,
    predictions: int = 0,
    next_sentence: bool = True,
) -> int:
    """Floating-point operations of the matrix products of a forward pass.

    A product [n, k] @ [k, m] counts 2nkm. For each token and block that is 2 (4 H^2 + 2 H I) in
    the dense layers and 4 S H in attention; for each prediction 2 (H^2 + V H); for each sequence
    2 H^2 in the pooler. Lookups and everything of the size of the activations are left out.

    Args:
        config: The architecture.
        batch_size: Sequences, B.
        length: Tokens of each, padding included, S.
        predictions: Positions of each under the masked-LM head, P; 0 for an encoder alone.
        next_sentence: Whether there is a next-sentence head.
    """
    hidden, wide = config.hidden_size, config.intermediate_size
    dense = 4 * hidden * hidden + 2 * hidden * wide
    block = batch_size * length * (dense + 2 * length * hidden)
    head = batch_size * predictions * (hidden * hidden + config.vocab_size * hidden)
    pooled = batch_size * (hidden * hidden + 2 * hidden * next_sentence)
    return 2 * (config.num_hidden_layers * block + head + pooled)


def step_flops(
    config: BertConfig,
    batch_size: int,
    length: int,
    predictions: int = 0,
    next_sentence: bool = True,
) -> int:
    """Operations of a forward and a backward pass, by which shares of the peak are told.

    The gradient of a product is two products of its size, one for each side: three times
    `forward_flops`. What recomputation repeats does not count: it is not of use to the model.

    Args:
        config: The architecture.
        batch_size: Sequences, B.
        length: Tokens of each, padding included, S.
        predictions: Positions of each under the masked-LM head, P.
        next_sentence: Whether there is a next-sentence head.
    """
    return 3 * forward_flops(config, batch_size, length, predictions, next_sentence)


def step_memory(
    config: BertConfig,
    batch_size: int,
    length: int,
    predictions: int = 0,
    precision: str = "float32",
    recompute: bool = False,
    averaged: bool = False,
) -> dict[str, int]:
    """An estimate of what one training step holds on a device at its fullest, in bytes.

    It counts what the layers keep for the way back, as they are written in `fused` and
    `transformer`; what an allocator or a compiler adds or saves is not in it, nor is the program
    itself (half a gigabyte). tests/modeling/test_sizes.py holds it against measured processes.

    Args:
        config: The architecture.
        batch_size: Sequences that are computed at a time on this device, B.
        length: Tokens of each, S.
        predictions: Positions of each under the masked-LM head, P.
        precision: "float32", "bfloat16" or "float16": of the activations.
        recompute: Whether blocks are computed anew on the way back.
        averaged: Whether the optimizer keeps an average of the weights too.

    Returns:
        "weights", with a copy in `precision` where that is not float32; "moments" of the
        optimizer, "gradients", "activations" and "logits".
    """
    numbers = sum(parameters(config).values())
    size = _ELEMENT_BYTES[precision]
    tokens, hidden = batch_size * length, config.hidden_size
    layers = config.num_hidden_layers
    block = _kept_by_block(config, batch_size, length, size)
    # With recomputation a block leaves its input only, and one at a time is there as a whole.
    kept = layers * tokens * hidden * size + block if recompute else layers * block
    # Logits, their softmax, its gradient, and that in the precision of the products.
    per_logit = 3 * _FLOAT32 + (size if size != _FLOAT32 else 0)
    logits = batch_size * predictions * config.vocab_size * per_logit
    # On the way back, the gradients of a block are as large again as what it kept. Of a recomputed
    # block no more than half is there at a time, and the logits have made room by then.
    gradients = max(0, block // 2 - logits) if recompute else block
    return {
        "weights": numbers * _FLOAT32 + (numbers * size if size != _FLOAT32 else 0),
        "moments": (2 + averaged) * numbers * _FLOAT32,
        # The table's gradient comes from its lookup and from the masked-LM head.
        "gradients": (numbers + config.vocab_size * hidden) * _FLOAT32,
        "activations": kept + gradients + tokens * hidden * (_FLOAT32 + size),
        "logits": logits,
    }


def _kept_by_block(config: BertConfig, batch_size: int, length: int, size: int) -> int:
    """Bytes that one block keeps for the way back, `size` being those of an activation."""
    tokens, hidden = batch_size * length, config.hidden_size
    # Input, query, key, value, what the heads give, and the sum that is normalized.
    narrow = 6 + 2 * (config.hidden_dropout_prob > 0)
    # The middle layer keeps the square, the gate and the output of its gelu.
    wide = 3 * config.intermediate_size
    # The normalized values of both layer normalizations stay in float32.
    normalized = 2 * tokens * hidden * _FLOAT32
    # The probabilities; with dropout their mask, and what it leaves of them.
    maps = 1 + 2 * (config.attention_probs_dropout_prob > 0)
    scores = maps * batch_size * config.num_attention_heads * length * length
    return size * (tokens * (narrow * hidden + wide) + scores) + normalized
