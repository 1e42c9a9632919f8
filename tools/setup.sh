# Creates a virtual environment in .venv and installs this project in it. quickstart.sh and test.sh
# source this file.
#
#   set_up ""                  installs the core requirements
#   set_up "[dev]"             also installs the extra "dev"
#   set_up "[ci]" "name==1"    also installs further packages, without their dependencies
#
# With BERT_TF_LOCK=requirements.lock, the versions and hashes in this file are installed in place of
# the requirements and of all extras. The file is for Python 3.11 on Linux, x86-64.
#
# Sets $PYTHON to the interpreter of the virtual environment. Requires Python 3.10 to 3.13 (set
# BERT_TF_PYTHON to select the interpreter) and pip. An up-to-date environment is reused. The output
# of pip goes to .venv/install.log.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
PYTHON="$ROOT/.venv/bin/python"
LOG="$ROOT/.venv/install.log"
export PIP_DISABLE_PIP_VERSION_CHECK=1

# Runs a command. Its output goes to the log, whose last lines are shown if the command fails.
logged() {
    echo "$ $*" >>"$LOG"
    if ! "$@" >>"$LOG" 2>&1; then
        tail -n 5 "$LOG" >&2
        echo "error: the installation failed. All of its output is in $LOG." >&2
        return 1
    fi
}

find_python() {
    local name
    set -- python3 python3.13 python3.12 python3.11 python3.10
    if [ -n "${BERT_TF_PYTHON:-}" ]; then set -- "$BERT_TF_PYTHON"; fi
    for name in "$@"; do
        if command -v "$name" >/dev/null && "$name" -c \
            'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    echo "error: Python 3.10 to 3.13 is required. Tried: $*. Set BERT_TF_PYTHON to its path." >&2
    return 2
}

make_environment() {
    local base="$1" pip_folder
    if [ ! -x "$PYTHON" ]; then
        "$base" -m venv "$ROOT/.venv" >/dev/null 2>&1 ||
            "$base" -m venv --without-pip --clear "$ROOT/.venv"
    fi
    : >"$LOG"
    if ! "$PYTHON" -m pip --version >/dev/null 2>&1; then
        # Debian's python3 lacks ensurepip, so the pip of the base interpreter installs pip here.
        if ! pip_folder="$("$base" -c 'import pip; print(pip.__path__[0])' 2>/dev/null)"; then
            echo "error: $base has neither ensurepip nor pip. Install one of them." >&2
            return 2
        fi
        logged env PYTHONPATH="$(dirname "$pip_folder")" \
            "$PYTHON" -m pip install --ignore-installed pip
    fi
    # Old versions of pip, such as that of Python 3.10, may find no compatible package versions.
    logged "$PYTHON" -m pip install --upgrade pip
}

set_up() {
    local extra="$1" base expected stamp="$ROOT/.venv/installed" lock="${BERT_TF_LOCK:-}"
    shift
    base="$(find_python)" || return
    lock="${lock:+$ROOT/$lock}"
    expected="$(cat "$ROOT/setup.py" "$ROOT/requirements.txt" ${lock:+"$lock"} | cksum) $ROOT $*"
    if [ -f "$stamp$extra" ] && [ "$(cat "$stamp$extra")" = "$expected" ]; then
        return
    fi
    echo "Setting up $ROOT/.venv (only once; tensorflow is a large download; log: $LOG) ..." >&2
    make_environment "$base"
    if [ -n "$lock" ]; then
        logged "$PYTHON" -m pip install --require-hashes -r "$lock"
        logged "$PYTHON" -m pip install --no-deps --no-build-isolation -e "$ROOT"
    else
        logged "$PYTHON" -m pip install -e "$ROOT$extra"
    fi
    if [ $# -gt 0 ]; then logged "$PYTHON" -m pip install --no-deps "$@"; fi
    echo "$expected" >"$stamp$extra"
}
