# shellcheck shell=bash disable=SC2034  # ROWS and others are used by the recipes
# Functions and settings that the recipes share. A recipe sources this file and then contains the
# settings of one table of the paper. Settings in capital letters are environment variables; their
# defaults are the values of the paper. Works with bash 3.2.

RECIPES=$(cd "$(dirname "${BASH_SOURCE[0]}")" >/dev/null && pwd)
ROOT=$(cd "$RECIPES/../.." >/dev/null && pwd)
PYTHON=${PYTHON:-python}
ROWS=()  # of the table of results

stop() {  # argument: a message
  echo "error: $1" >&2
  exit 2
}

# Stops if an environment variable is not set. Arguments: pairs of a name and a description.
require() {
  while [ $# -gt 0 ]; do
    if [ -z "${!1:-}" ]; then stop "the environment variable $1 is not set. Give the $2."; fi
    shift 2
  done
}

# Stops if a local file or folder does not exist: before the training, not after it.
require_files() {
  local path
  for path in "$@"; do
    case $path in
      *://*) ;;
      *) if [ ! -e "$path" ]; then stop "$path does not exist."; fi ;;
    esac
  done
}

# Whether a list contains a word. Arguments: list separated by blanks, word.
contains() {
  case " $1 " in *" $2 "*) return 0 ;; esac
  return 1
}

run() {  # arguments: program, its flags
  "$PYTHON" "$ROOT/$1" "${@:2}"
}

# ---- Pretraining. Each command skips what is complete, and resumes what was interrupted.

BATCH=${BATCH:-256} STEPS=${STEPS:-1000000} WARMUP=${WARMUP:-$((${STEPS:-1000000} / 100))}
# Lengths of the sequences in the first 90 % of the steps and in the others; LONG=0 uses SHORT only.
SHORT=${SHORT:-128} LONG=${LONG:-512}

require_corpus() {
  require TEXT "globs of text files: one sentence per line, a blank line between documents" \
    VOCAB "path of vocab.txt" OUT "folder of the results"
}

# Creates the records of both phases. Arguments: folder, flags of create_pretraining_data.py.
make_records() {
  records_of_length "$1" "$SHORT" 20 "${@:2}"
  if [ "$LONG" -gt 0 ]; then records_of_length "$1" "$LONG" "$(long_predictions)" "${@:2}"; fi
}

# Pretrains in both phases, with one learning rate schedule.
# Arguments: folder of the records, folder of the model, flags of run_pretraining.py.
pretrain() {
  local steps=$STEPS
  if [ "$LONG" -gt 0 ]; then steps=$((STEPS * 9 / 10)); fi
  pretrain_phase "$1" "$SHORT" 20 --output_dir="$2/phase1" --num_train_steps="$STEPS" \
    --stop_at_step="$steps" --num_warmup_steps="$WARMUP" --learning_rate=1e-4 "${@:3}"
  if [ "$LONG" -eq 0 ]; then return; fi
  # At the end of the first phase the learning rate is a tenth of its peak, so the second phase
  # starts at 1e-5.
  pretrain_phase "$1" "$LONG" "$(long_predictions)" --output_dir="$2/phase2" --init_checkpoint="$2/phase1" \
    --num_train_steps=$((STEPS - steps)) --num_warmup_steps=0 --learning_rate=1e-5 "${@:3}"
}

# Prints 15 % of the length of the second phase, rounded up: 77 for 512.
long_predictions() { echo $(((LONG * 15 + 99) / 100)); }

# Prints the folder of the last phase. Argument: folder of the model.
last_phase() {
  if [ "$LONG" -gt 0 ]; then echo "$1/phase2"; else echo "$1/phase1"; fi
}

records_of_length() {  # arguments: folder, length, predictions, flags
  run data_prep/create_pretraining_data.py --input_file="$TEXT" --vocab_file="$VOCAB" \
    --do_lower_case="${LOWER_CASE:-true}" --output_file="$1/records_$2/train.tfrecord" \
    --num_output_shards=16 --max_seq_length="$2" --max_predictions_per_seq="$3" \
    --dupe_factor="${DUPE_FACTOR:-10}" --eval_fraction="${EVAL_FRACTION:-0.01}" "${@:4}"
}

pretrain_phase() {  # arguments: folder of the records, length, predictions, flags
  run run_scripts/run_pretraining.py --do_train=true --do_eval=true \
    --input_file="$1/records_$2/train-*" --eval_input_file="$1/records_$2/train.eval*" \
    --vocab_file="$VOCAB" --do_lower_case="${LOWER_CASE:-true}" --max_seq_length="$2" \
    --max_predictions_per_seq="$3" --train_batch_size="$BATCH" "${@:4}"
}

# ---- Fine-tuning.

# Trains and evaluates once. Arguments: program, output folder, flags.
fine_tune() {
  run "run_scripts/$1" --do_train=true --do_eval=true --output_dir="$2" "${@:3}"
}

# Trains and evaluates once for each learning rate and seed.
# Arguments: program, output folder, learning rates separated by commas, number of seeds, flags.
sweep() {
  run run_scripts/sweep.py --grid=learning_rate="$3" --seeds="$4" --output_dir="$2" \
    -- "$1" --do_train=true --do_eval=true "${@:5}"
}

# Prints the path of the run with the highest value. Arguments: folder of `sweep`, name of a metric.
best_run() {
  "$PYTHON" "$RECIPES/results_table.py" best "$1" "$2"
}

# ---- The table of the results.

# Prints the figure of the paper for BERT-Base or, with SIZE=large, for BERT-Large.
by_size() {
  if [ "$SIZE" = large ]; then echo "$2"; else echo "$1"; fi
}

SIZE=${SIZE:-base}
contains "base large" "$SIZE" || stop "SIZE=$SIZE is not base or large."

# Adds a row. Arguments: label, metric, figure of the paper, folder of a run or of `sweep`, formula
# for the result and, optionally, the choice of runs; see results_table.py.
row() {
  local fields
  fields=$(printf '%s\t' "$1" "$2" "$3" "$4" "$5" "${6:-}")
  ROWS+=("$fields")
}

# Prints the rows and writes them to $OUT/table.tsv. Argument: heading.
print_table() {
  mkdir -p "$OUT"
  printf '%s\n' "${ROWS[@]}" | "$PYTHON" "$RECIPES/results_table.py" results >"$OUT/table.tsv.new"
  mv "$OUT/table.tsv.new" "$OUT/table.tsv"
  printf '\n%s\n\n' "$1"
  "$PYTHON" "$RECIPES/results_table.py" show "$OUT/table.tsv"
}
