"""The costs of a model: its parameters, and the FLOPs and memory of a training step.

The shape letters are those of `bert_tf.modeling`.
"""

from bert_tf.config import BertConfig

_FLOAT32 = 4
_ELEMENT_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def parameter_counts(config: BertConfig) -> dict[str, int]:
    """Returns the number of parameters of each part of a pretraining model.

    The parts are "embeddings", "blocks" and "pooler" (together the encoder),
    "masked_lm_head" (without the word embeddings, which this head shares with the
    encoder) and "next_sentence_head".
    """
    hidden = config.hidden_size
    wide = config.intermediate_size
    norm = 2 * hidden  # gamma and beta
    rows = config.vocab_size + config.type_vocab_size + config.max_position_embeddings
    # Query, key, value and output, each a kernel and a bias.
    attention = 4 * (hidden * hidden + hidden) + norm
    feed_forward = 2 * hidden * wide + wide + hidden + norm

    return {
        "embeddings": rows * hidden + norm,
        "blocks": config.num_hidden_layers * (attention + feed_forward),
        "pooler": hidden * hidden + hidden,
        "masked_lm_head": hidden * hidden + hidden + norm + config.vocab_size,
        "next_sentence_head": 2 * hidden + 2,
    }


def training_step_flops(
    config: BertConfig,
    batch_size: int,
    length: int,
    predictions: int,
    next_sentence: bool = True,
) -> int:
    """Returns the floating-point operations (FLOPs) of a step's matrix products.

    A product [n, k] @ [k, m] counts as 2nkm FLOPs. In the forward pass, each block
    takes for each token 2 (4 H^2 + 2 H I) in the dense layers and 4 S H in attention.
    Each prediction takes 2 (H^2 + V H). For each sequence, the pooler takes 2 H^2. For
    each of these products, the backward pass computes two of the same size: the
    gradients of the two factors. Embedding lookups, elementwise operations, and
    operations that gradient checkpointing repeats are not counted, so the result can be
    used for the model FLOPs utilization (MFU).

    Args:
        length: Number of tokens (including padding) in each sequence, S.
        predictions: Number of masked-LM predictions in each sequence, P; 0 for a model
            without a masked-LM head.
    """
    # Products of two numbers in the forward pass.
    hidden = config.hidden_size
    dense = 4 * hidden * hidden + 2 * hidden * config.intermediate_size
    block = batch_size * length * (dense + 2 * length * hidden)
    head = batch_size * predictions * (hidden * hidden + config.vocab_size * hidden)
    pooled = batch_size * (hidden * hidden + 2 * hidden * next_sentence)

    # A product and a sum are 2 FLOPs; the backward pass takes twice as many.
    return 3 * 2 * (config.num_hidden_layers * block + head + pooled)


def training_step_memory(
    config: BertConfig,
    batch_size: int,
    length: int,
    predictions: int,
    precision: str = "float32",
    recompute: bool = False,
    averaged: bool = False,
) -> dict[str, int]:
    """Estimates the peak memory of a training step on one device, in bytes.

    The estimate counts the weights, the state of the optimizer, the gradients, and the
    tensors that `fused_operations`, `activations`, `attention` and `transformer_block`
    keep for the backward pass. It does not include effects of the allocator or the
    compiler, nor the half gigabyte that the Python process uses before training starts.
    tests/modeling/test_costs.py compares the estimate with measured peak memory.

    Args:
        batch_size: Number of sequences in one forward pass on this device, B.
        length: Number of tokens (including padding) in each sequence, S.
        predictions: Number of masked-LM predictions in each sequence, P.
        precision: Dtype of the activations: "float32", "bfloat16" or "float16".
        averaged: Whether the optimizer also keeps a moving average of the weights.

    Returns:
        Dict from a kind of tensors to their bytes. The kinds are "weights", including a
        copy in `precision` if that is not float32; "moments" of the optimizer,
        including the moving average if `averaged`; "gradients" of the weights;
        "activations" and their gradients; "logits", their softmax and their gradients.
    """
    numbers = sum(parameter_counts(config).values())
    size = _ELEMENT_BYTES[precision]
    tokens = batch_size * length
    hidden = config.hidden_size
    layers = config.num_hidden_layers

    block = _block_activation_bytes(config, batch_size, length, size)
    # With recomputation, each block keeps only its input, and the other activations of
    # a block exist only during the backward pass of that block.
    kept = layers * tokens * hidden * size + block if recompute else layers * block

    # For each logit, a training step holds the logit, its softmax and its gradient in
    # float32, and the gradient cast to `precision`.
    cast_size = size if size != _FLOAT32 else 0
    per_logit = 3 * _FLOAT32 + cast_size
    logits = batch_size * predictions * config.vocab_size * per_logit

    # In the backward pass, the gradients of a block take as much memory as the
    # activations of the block. With recomputation, at most half of these gradients
    # exist at the same time, or four tensors of the size of the attention
    # probabilities. The memory of the logits has been freed before these gradients
    # exist.
    maps = 4 * _num_scores(config, batch_size, length) * size
    gradients = max(0, max(block // 2, maps) - logits) if recompute else block

    return {
        "weights": numbers * (_FLOAT32 + cast_size),
        "moments": (2 + averaged) * numbers * _FLOAT32,
        # The word embeddings get one gradient from the lookup and one from the
        # masked-LM head.
        "gradients": (numbers + config.vocab_size * hidden) * _FLOAT32,
        "activations": kept + gradients + tokens * hidden * (_FLOAT32 + size),
        "logits": logits,
    }


def _num_scores(config: BertConfig, batch_size: int, length: int) -> int:
    """Returns the number of attention scores of one block."""
    return batch_size * config.num_attention_heads * length * length


def _block_activation_bytes(
    config: BertConfig, batch_size: int, length: int, size: int
) -> int:
    """Returns the bytes of the activations of a block, at `size` bytes per element."""
    tokens = batch_size * length
    hidden = config.hidden_size
    # The block keeps six tensors of width H: the input of the block, query, key, value,
    # the output of the attention heads and the input of the feed-forward layer. With
    # dropout, the block also keeps two dropout masks of width H.
    narrow = 6 + 2 * (config.hidden_dropout_prob > 0)

    # The intermediate layer keeps three tensors of its gelu: squared input, sigmoid and
    # output.
    wide = 3 * config.intermediate_size

    # Each of the two layer normalizations keeps its normalized values in float32.
    normalized = 2 * tokens * hidden * _FLOAT32

    # The block keeps the attention probabilities and, with dropout, also the mask: a
    # byte each.
    scores = _num_scores(config, batch_size, length)
    maps = scores * (size + (config.attention_probs_dropout_prob > 0))
    return size * tokens * (narrow * hidden + wide) + maps + normalized
