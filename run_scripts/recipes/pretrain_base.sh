#!/usr/bin/env bash
# Pretrains BERT-Base as in the paper: 1,000,000 steps of 256 sequences. The first 90 % of the steps
# use length 128, the others length 512. One learning rate schedule covers both phases.
#
# Hardware   16 TPU chips in the paper. --gradient_accumulation_steps and --recompute=true reduce
#            the memory of a training step.
# Time       4 days in the paper.
# Expected   after fine-tuning, on dev (paper, table 5): MNLI-m 84.4, MRPC 86.7, SST-2 92.7.
#            This recipe has not been run at this size; tests/run_scripts/test_recipes.py runs a
#            small version.
#
# TEXT='wiki/*.txt' VOCAB=vocab.txt CONFIG=bert_config.json OUT=base \
#   bash run_scripts/recipes/pretrain_base.sh [further flags of run_pretraining.py]
set -euo pipefail
source "$(dirname "$0")/lib.sh"
require_corpus
require CONFIG "path of bert_config.json"

make_records "$OUT"
pretrain "$OUT" "$OUT" --bert_config_file="$CONFIG" "$@"
