"""The objective and the batches of runs that compare the texts of a batch."""


def make_objective(kind, config, **options):
    """Returns the objective of a loss, with cuts and in both directions."""
    from bert_tf.modeling import BertEncoder
    from bert_tf.tasks.embedding.embedding_objective import EmbeddingObjective
    from bert_tf.tasks.embedding.losses import BatchLoss

    loss = BatchLoss(kind, 20.0, True, (config.hidden_size, 4))
    encoder = BertEncoder(config, **options)
    return EmbeddingObjective(encoder, loss, "mean", ("loss", -1))


def of_texts(batch):
    """Converts a batch of sequences to rows of three texts and a score.

    The texts of a row are the sequence and two neighbors, so some rows have equal texts.
    The third text of some rows is missing.
    """
    import tensorflow as tf

    batch = {name: batch[name] for name in ("input_ids", "input_mask", "segment_ids")}
    ids = batch["input_ids"]
    is_there = tf.cast(ids[:, :1] % 2, tf.int32)
    texts = {}
    for name, values in batch.items():
        second, third = tf.roll(values, 1, 0), tf.roll(values, 3, 0)
        texts[name] = tf.stack([values, second, third * is_there], axis=1)
    keys = tf.stack([texts["input_ids"][:, :, :2], texts["input_ids"][:, :, 2:4]], -1)
    scores = tf.cast(ids[:, 1] % 5, tf.float32) / 5
    return {**texts, "text_keys": keys[:, :, 0], "label_ids": scores}
