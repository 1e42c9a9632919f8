"""The text of `--help` of the main programs."""

import inspect
import re
import textwrap
from typing import Any

from absl import flags

# The end of absl's error message about a required flag that is missing.
REQUIRED = "must have a value other than None."
# The flags that most users need, in the order in which users think of them: phases,
# model, data, training, output. All programs list these flags first.
_MAIN = (
    "do_train",
    "do_eval",
    "do_predict",
    "init_checkpoint",
    "bert_config_file",
    "vocab_file",
    "do_lower_case",
    "data_dir",
    "train_file",
    "dev_file",
    "test_file",
    "predict_file",
    "input_file",
    "eval_input_file",
    "text_a_column",
    "text_b_column",
    "label_column",
    "text",
    "max_seq_length",
    "learning_rate",
    "train_batch_size",
    "num_train_epochs",
    "num_train_steps",
    "num_warmup_steps",
    "output_dir",
    "output_file",
    "export_dir",
    "overwrite",
)
_KINDS = {"bool": "true|false", "string": "text", "multi string": "text"}
_PYTHON_COMMAND = re.compile(r"python (?:run_scripts|data_prep)/(\w+)\.py")


def name_programs(text: str, program: str) -> str:
    """Replaces names of Python files in commands, if the user calls console scripts.

    `program` is the path of the program as the user typed it, `sys.argv[0]`.
    """
    if program.endswith(".py"):
        return text
    return _PYTHON_COMMAND.sub(
        lambda match: f"bert-tf-{match[1].replace('_', '-')}", text
    )


def help_text(module: Any, program: str) -> str:
    """Returns the module's docstring, and the meaning and default of each key flag.

    The required flags are listed first, then the flags that most users need, then other
    flags of the module, and then flags that the module shares with other programs. If
    `program`, which is `sys.argv[0]`, is a console script, the examples call console
    scripts.
    """
    text = name_programs(inspect.cleandoc(module.__doc__ or ""), program)

    # The groups of flags, each in its order.
    own = flags.FLAGS.get_flags_for_module(module)
    key = flags.FLAGS.get_key_flags_for_module(module)
    required = [
        flag
        for flag in key
        if any(validator.message.endswith(REQUIRED) for validator in flag.validators)
    ]
    main = sorted(
        (flag for flag in key if flag.name in _MAIN and flag not in required),
        key=lambda flag: _MAIN.index(flag.name),
    )
    further = [flag for flag in key if flag not in [*required, *main]]
    further.sort(key=lambda flag: flag not in own)

    sections = {
        "Required flags:": required,
        "Main flags:": main,
        "Further flags:": further,
    }
    lists = (
        "\n".join([title, *map(_describe, section)])
        for title, section in sections.items()
        if section
    )
    return "\n\n".join([text, *lists])


def _describe(flag: Any) -> str:
    kind = _KINDS.get(flag.flag_type(), flag.flag_type())
    if choices := getattr(flag.parser, "enum_values", None):
        kind = "|".join(choices)
    # absl puts the choices before the text, and a note that the flag may be repeated
    # after the text.
    text = (flag.help or "").removeprefix(f"<{kind}>: ").split(";\n")[0].strip()
    if flag.default not in (None, "", []):
        # No line break between the two words: textwrap does not break at this
        # character.
        text += f" Default:\xa0{flag.default_as_str[1:-1]}."
    filled = textwrap.fill(
        text, 96, initial_indent="      ", subsequent_indent="      "
    )
    return f"  --{flag.name}={kind}\n" + filled.replace("\xa0", " ")
