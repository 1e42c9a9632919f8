"""The one exception for input that a user can mend.

Imports nothing of ours.
"""


class InputError(ValueError):
    """What the user gave cannot be used; the message says what to change.

    Library code raises it with one line: what was received, what was expected, what to change.
    Mains print that line to stderr and exit with code 2 (`command_line.run`); any other
    exception is a defect of ours and keeps its traceback.
    """
