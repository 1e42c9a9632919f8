"""bert-tf: BERT for TensorFlow and Keras 3, from raw text to a served model.

The names below are the public interface. They are imported when they are first used, so
that `import bert_tf` does not import TensorFlow.

Read in this order; each package imports only packages listed before it:

1. The foundation: `errors`, `config_fields` (the fields of configs), `optional_packages`
   (imports of the extras), and `storage`, which reads and writes files, record files
   and weights folders. `config`, `record_format`, `head_config` and `saved_task` define
   the architecture, the record format, the layers of a head and the facts about a task.
   `progress` reports the progress of long work, `tfds_builders` opens data sets of
   tensorflow-datasets, and `backend` checks what the backend of Keras supports.
   `program` has the parts that every main program needs.
2. `tokenization` (text -> ids), `masking` (which tokens are predicted), `modeling` (ids
   -> hidden states -> logits).
3. `training`: the training loop for any objective; it does not depend on BERT.
4. `pretraining`, `tasks`: data, objective and metrics of pretraining and of each
   fine-tuning task; `feature_extraction`: hidden states of texts.
5. `conversion` reads and writes checkpoints of all dialects, `pretrained` loads and
   saves models, `text_inputs` is a Keras layer from texts to ids, `runs` pretrains a
   model or trains it for a task, `export` creates models for serving.
6. `corpus` reads a text corpus, `vocabularies` learns vocabularies from its text,
   `record_creation` is the procedure that converts the text to records, and `record_jobs`
   executes this procedure on one or several machines. `sample_data` makes sample text.
7. `sweeps` compares runs, `quickstart` is the whole workflow, and `cli` has the parts
   that programs share. The programs are in `data_prep/` and `run_scripts/`.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__: str

if TYPE_CHECKING:
    from bert_tf.config import BertConfig
    from bert_tf.errors import InputError, TrainingInterrupted
    from bert_tf.export.api import export_model
    from bert_tf.export.predictor import Predictor
    from bert_tf.export.serving_settings import ServingSettings
    from bert_tf.export.word_effects import WordEffect, word_effects
    from bert_tf.head_config import HeadConfig
    from bert_tf.masking.masking_config import MaskingConfig
    from bert_tf.modeling import (
        BertClassifier,
        BertEncoder,
        BertMultipleChoice,
        BertPretrainer,
        BertSpanPredictor,
        BertTagger,
        layout_map,
    )
    from bert_tf.pretrained import load, save_checkpoint
    from bert_tf.pretraining.fit_dataset import pretraining_dataset
    from bert_tf.pretraining.pretraining_config import PretrainingConfig
    from bert_tf.runs.fine_tune import fine_tune
    from bert_tf.runs.fine_tuning_config import DistillationConfig, FineTuningConfig
    from bert_tf.runs.pretrain import pretrain
    from bert_tf.tasks.choice.choice_task import ChoiceTask
    from bert_tf.tasks.classification.long_texts import LongTexts
    from bert_tf.tasks.classification.sources.custom import TextColumns, custom_task
    from bert_tf.tasks.classification.sources.glue_tasks import glue_task
    from bert_tf.tasks.embedding.embedding_settings import EmbeddingSettings
    from bert_tf.tasks.embedding.embedding_task import EmbeddingTask
    from bert_tf.tasks.embedding.text_rows import PairColumns
    from bert_tf.tasks.ner.ner_task import NerTask
    from bert_tf.tasks.splits import DataLocation
    from bert_tf.tasks.squad.best_answers import AnswerSettings
    from bert_tf.tasks.squad.squad_encoding import WindowSettings
    from bert_tf.tasks.squad.squad_task import SquadTask
    from bert_tf.tasks.tables import TableFormat
    from bert_tf.text_inputs import TextInputs
    from bert_tf.tokenization import BertTokenizer
    from bert_tf.training.keras_optimizer import AdamWeightDecay, WarmupSchedule
    from bert_tf.training.lifecycle.run_folder import RunFolder
    from bert_tf.training.trainer import Trainer, TrainingData
    from bert_tf.training.training_config import (
        RunPhases,
        RuntimeConfig,
        TrainingConfig,
    )

_MODULES = {
    "AdamWeightDecay": "training.keras_optimizer",
    "AnswerSettings": "tasks.squad.best_answers",
    "BertClassifier": "modeling",
    "BertConfig": "config",
    "BertEncoder": "modeling",
    "BertMultipleChoice": "modeling",
    "BertPretrainer": "modeling",
    "BertSpanPredictor": "modeling",
    "BertTagger": "modeling",
    "BertTokenizer": "tokenization",
    "ChoiceTask": "tasks.choice.choice_task",
    "DataLocation": "tasks.splits",
    "DistillationConfig": "runs.fine_tuning_config",
    "EmbeddingSettings": "tasks.embedding.embedding_settings",
    "EmbeddingTask": "tasks.embedding.embedding_task",
    "FineTuningConfig": "runs.fine_tuning_config",
    "HeadConfig": "head_config",
    "InputError": "errors",
    "LongTexts": "tasks.classification.long_texts",
    "MaskingConfig": "masking.masking_config",
    "NerTask": "tasks.ner.ner_task",
    "PairColumns": "tasks.embedding.text_rows",
    "Predictor": "export.predictor",
    "PretrainingConfig": "pretraining.pretraining_config",
    "RunFolder": "training.lifecycle.run_folder",
    "RunPhases": "training.training_config",
    "RuntimeConfig": "training.training_config",
    "ServingSettings": "export.serving_settings",
    "SquadTask": "tasks.squad.squad_task",
    "TableFormat": "tasks.tables",
    "TextColumns": "tasks.classification.sources.custom",
    "TextInputs": "text_inputs",
    "Trainer": "training.trainer",
    "TrainingConfig": "training.training_config",
    "TrainingData": "training.trainer",
    "TrainingInterrupted": "errors",
    "WarmupSchedule": "training.keras_optimizer",
    "WindowSettings": "tasks.squad.squad_encoding",
    "WordEffect": "export.word_effects",
    "custom_task": "tasks.classification.sources.custom",
    "export_model": "export.api",
    "fine_tune": "runs.fine_tune",
    "glue_task": "tasks.classification.sources.glue_tasks",
    "layout_map": "modeling",
    "load": "pretrained",
    "pretrain": "runs.pretrain",
    "pretraining_dataset": "pretraining.fit_dataset",
    "save_checkpoint": "pretrained",
    "word_effects": "export.word_effects",
}
__all__ = list(_MODULES)
# The backends of Keras on which names work, by the start of their module.
_BACKENDS = {
    ("tensorflow",): ("export",),
    ("tensorflow", "jax"): (
        "runs.pretrain",
        "runs.fine_tune",
        "training.trainer",
        "tasks.choice",
        "tasks.embedding.embedding_task",
        "tasks.ner",
        "tasks.squad.squad_task",
    ),
    ("tensorflow", "jax", "torch"): (
        "tokenization",
        "modeling",
        "pretrained",
        "pretraining.fit_dataset",
        "text_inputs",
        "training.keras_optimizer",
    ),
}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used (PEP 562)."""
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("bert-tf")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _MODULES[name]
    backend = importlib.import_module(f"{__name__}.backend")
    for backends, modules in _BACKENDS.items():
        if module.startswith(modules):
            backend.check_backend(name, module, backends)
            break
    value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    if module in ("modeling", "pretrained"):
        # A saved model may contain the optimizer and the tokenizer. Keras finds only
        # classes that are imported.
        importlib.import_module(f"{__name__}.{_MODULES['AdamWeightDecay']}")
    if module == "pretrained":
        importlib.import_module(f"{__name__}.text_inputs")
    backend.hide_accelerators()
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
