"""The processes of export checks, forked from one that has imported TensorFlow."""

import array
import contextlib
import functools
import os
import signal
import socket
import subprocess
import sys

from bert_tf.export import check

# Receives three file descriptors for each process to start: its stdin, its stderr, and
# the file for its process id and its exit code. A child process waits for the process,
# so that the server can start others meanwhile.
_SERVER = """
import array, os, signal, socket, sys
import keras, tensorflow, tensorflow_text


def run(stdin, stderr):
    os.setpgid(0, 0)
    for number, file in enumerate((stdin, os.open(os.devnull, os.O_WRONLY), stderr)):
        os.dup2(file, number)
    os.chdir(os.sep)
    try:
        exec(sys.argv[1], {"__name__": "__main__"})
    except SystemExit as stopped:
        print(stopped.code, file=sys.stderr)
        return 1
    return 0


requests = socket.socket(fileno=int(sys.argv[2]))
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    message, data, _, _ = requests.recvmsg(1, socket.CMSG_SPACE(12))
    if not message:
        break
    stdin, stderr, status = array.array("i", data[0][2])
    if os.fork() == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        child = os.fork()
        if child == 0:
            os._exit(run(stdin, stderr))
        os.close(stdin), os.close(stderr)
        os.write(status, b"%d\\n" % child)
        os.write(status, b"%d\\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        os._exit(0)
    os.close(stdin), os.close(stderr), os.close(status)
"""


class _Process:
    """The part of `subprocess.Popen` that `CheckProcess` uses."""

    def __init__(self):
        self.returncode = None
        (stdin, own_stdin), (own_stderr, stderr), (own_status, status) = (
            os.pipe() for _ in range(3)
        )
        files = array.array("i", [stdin, stderr, status])
        _server().sendmsg([b"1"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
        for file in files:
            os.close(file)
        self._stdin, self._stderr = os.fdopen(own_stdin, "w"), os.fdopen(own_stderr)
        self._status = os.fdopen(own_status)
        self._id = int(self._status.readline())

    def communicate(self, text=""):
        with contextlib.suppress(BrokenPipeError), self._stdin:
            self._stdin.write(text)
        with self._stderr, self._status:
            errors = self._stderr.read()
            self.returncode = int(self._status.readline())
        return None, errors

    def poll(self):
        return self.returncode

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._id, signal.SIGKILL)


@functools.cache
def _server():
    """Starts the server, which ends with this process."""
    own, other = socket.socketpair()
    other.set_inheritable(True)
    command = [
        sys.executable,
        "-c",
        _SERVER,
        check._PROGRAM,
        str(other.fileno()),
    ]
    environment = {**os.environ, **check._ENVIRONMENT}
    subprocess.Popen(command, env=environment, pass_fds=[other.fileno()])
    other.close()
    return own


_ORIGINAL = check.CheckProcess.__init__


def initialize(check, python=sys.executable):
    """Replaces `CheckProcess.__init__`."""
    if python != sys.executable:
        _ORIGINAL(check, python)
    else:
        check._process = _Process()
