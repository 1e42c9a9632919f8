#!/usr/bin/env bash
# Runs the ablations of table 5 of the paper, except BiLSTM: pretrains BERT, "No NSP" and "LTR & No
# NSP" with the same settings, and fine-tunes each of these models on MRPC.
#
# Hardware   as for pretrain_base.sh, for each of the three models.
# Expected   MRPC accuracy on dev (paper, table 5): 86.7, 86.5 and 77.5.
#            This recipe has not been run at this size; tests/run_scripts/test_recipes.py runs a
#            small version.
#
# TEXT='wiki/*.txt' VOCAB=vocab.txt CONFIG=bert_config.json MRPC=glue/MRPC OUT=ablations \
#   bash run_scripts/recipes/ablations.sh [further flags of run_pretraining.py]
set -euo pipefail
: "${TEXT:?globs of text files: one sentence per line, a blank line between documents}"
: "${VOCAB:?vocab.txt}" "${CONFIG:?bert_config.json}" "${MRPC:?folder of MRPC}" "${OUT:?folder}"
PYTHON=${PYTHON:-python}
BATCH=${BATCH:-256} STEPS=${STEPS:-1000000} WARMUP=${WARMUP:-10000} LENGTH=${LENGTH:-128}
here=$(cd "$(dirname "$0")/../.." && pwd)

for objective in mlm_nsp mlm causal; do
  "$PYTHON" "$here/data_prep/create_pretraining_data.py" --input_file="$TEXT" --vocab_file="$VOCAB" \
    --output_file="$OUT/$objective/train.tfrecord" --objective="$objective" \
    --max_seq_length="$LENGTH" --max_predictions_per_seq=20 --dupe_factor="${DUPE_FACTOR:-10}"
  "$PYTHON" "$here/run_scripts/run_pretraining.py" --do_train=true --do_eval=true \
    --input_file="$OUT/$objective/train.tfrecord*" --objective="$objective" \
    --bert_config_file="$CONFIG" --vocab_file="$VOCAB" --max_seq_length="$LENGTH" \
    --max_predictions_per_seq=20 --train_batch_size="$BATCH" --num_train_steps="$STEPS" \
    --num_warmup_steps="$WARMUP" --learning_rate=1e-4 --output_dir="$OUT/$objective/model" "$@"
  # run_classifier.py reads from the checkpoint's configuration whether attention is causal.
  "$PYTHON" "$here/run_scripts/run_classifier.py" --task_name=MRPC --data_dir="$MRPC" \
    --do_train=true --do_eval=true --init_checkpoint="$OUT/$objective/model" \
    --max_seq_length="$LENGTH" --train_batch_size=32 --learning_rate=2e-5 --num_train_epochs=3 \
    --output_dir="$OUT/$objective/mrpc"
done
grep -H eval_accuracy "$OUT"/*/mrpc/eval_results.txt
