"""Checks import rules, import cycles, file sizes, and that only mains define flags."""

import ast
import functools
import graphlib
import pathlib
import re

import bert_tf
from tools.count_lines import code_lines

ROOT = pathlib.Path(__file__).parent.parent
PACKAGES = ("bert_tf", "data_prep", "run_scripts", "tools")
PROGRAMS = ("data_prep", "run_scripts")
PARTS_OF_PROGRAMS = tuple(
    f"bert_tf.{name}"
    for name in ["cli", "corpus", "quickstart", "record_jobs", "sweeps"]
)
# Layer 0, which all other packages may import, and what its parts import of each other.
FOUNDATION = {
    "bert_tf.errors": (),
    "bert_tf.config_fields": (),
    "bert_tf.optional_packages": ("bert_tf.errors",),
    "bert_tf.storage": ("bert_tf.errors", "bert_tf.optional_packages"),
    "bert_tf.progress": (),
    "bert_tf.config": ("bert_tf.errors", "bert_tf.storage"),
    "bert_tf.record_format": ("bert_tf.errors", "bert_tf.storage"),
    "bert_tf.head_config": ("bert_tf.errors", "bert_tf.config_fields"),
    "bert_tf.saved_task": ("bert_tf.head_config",),
    "bert_tf.tfds_builders": ("bert_tf.errors",),
    "bert_tf.backend": ("bert_tf.errors",),
}

# For each package: the packages of this project that it may import in addition to
# itself and the foundation, and the third-party packages that it must not import.
TRAINING = ("bert_tf.tokenization", "bert_tf.modeling", "bert_tf.training")
IMPORT_RULES = {
    **{
        name: (allowed, ("keras", "tensorflow_text"))
        for name, allowed in FOUNDATION.items()
    },
    "bert_tf.program": ((), ("keras", "tensorflow_text")),
    "bert_tf.tokenization": ((), ("keras",)),
    "bert_tf.masking": ((), ("tensorflow", "tensorflow_text", "keras")),
    "bert_tf.modeling": ((), ("tensorflow", "tensorflow_text")),
    "bert_tf.training": ((), ()),
    "bert_tf.pretraining": ((*TRAINING, "bert_tf.masking"), ()),
    "bert_tf.tasks": (TRAINING, ()),
    "bert_tf.feature_extraction": (TRAINING, ()),
    "bert_tf.conversion": (TRAINING, ()),
    "bert_tf.pretrained": (
        ("bert_tf.tokenization", "bert_tf.modeling", "bert_tf.conversion"),
        (),
    ),
    "bert_tf.text_inputs": (("bert_tf.tokenization",), ()),
    "bert_tf.runs": (
        (
            *TRAINING,
            "bert_tf.masking",
            "bert_tf.pretraining",
            "bert_tf.tasks",
            "bert_tf.pretrained",
        ),
        (),
    ),
    "bert_tf.export": (
        (*TRAINING, "bert_tf.tasks", "bert_tf.conversion", "bert_tf.pretrained"),
        (),
    ),
    "bert_tf.corpus": (("bert_tf.tokenization",), ("keras",)),
    "bert_tf.vocabularies": (("bert_tf.tokenization", "bert_tf.corpus"), ("keras",)),
    "bert_tf.record_creation": (
        ("bert_tf.tokenization", "bert_tf.masking", "bert_tf.corpus"),
        ("keras",),
    ),
    "bert_tf.record_jobs": (
        (
            "bert_tf.program",
            "bert_tf.tokenization",
            "bert_tf.masking",
            "bert_tf.corpus",
            "bert_tf.record_creation",
        ),
        ("keras",),
    ),
    "bert_tf.sample_data": (("bert_tf.record_jobs.local",), ("keras",)),
    "bert_tf.sweeps": (
        ("bert_tf.tasks.tables", "bert_tf.runs.dev_split"),
        ("keras",),
    ),
    "bert_tf.quickstart": (("bert_tf.sweeps",), ("keras",)),
    "bert_tf.cli": (("bert_tf",), ()),
    "data_prep": (("bert_tf",), ()),
    "run_scripts": (("bert_tf",), ()),
    "tools": (("bert_tf",), ()),
}


def module_name(path):
    """Returns the name of a module."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {
    module_name(path): path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
}
MODULES = {name: ast.parse(path.read_text("utf-8")) for name, path in PATHS.items()}


@functools.cache
def imports(name, top_level_only=False):
    """Returns the full names of the modules that a module imports."""
    tree = MODULES[name]
    found = set()
    for node in tree.body if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} uses a relative import"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found.add(full if full in MODULES else node.module)
    return found


def is_inside(module, package):
    return module == package or module.startswith(f"{package}.")


def is_in_program_folder(module):
    return module.split(".")[0] in PROGRAMS


def package_of(module):
    return next(
        (package for package in IMPORT_RULES if is_inside(module, package)), None
    )


def test_imports_follow_the_rules():
    violations = []
    for name in MODULES.keys() - {"bert_tf", "bert_tf.__main__"}:
        package = package_of(name)
        allowed, forbidden = IMPORT_RULES[package]
        allowed = {*allowed, package, *(() if package in FOUNDATION else FOUNDATION)}
        for imported in imports(name):
            root = imported.split(".")[0]
            is_allowed = any(is_inside(imported, other) for other in allowed)
            if root in forbidden or (root in PACKAGES and not is_allowed):
                violations.append(f"{name} may not import {imported}")
    assert not violations


def test_the_public_names_are_imported_when_they_are_used():
    assert imports("bert_tf", top_level_only=True) == {"importlib", "typing"}
    (guarded,) = (node for node in MODULES["bert_tf"].body if isinstance(node, ast.If))
    for_type_checkers = {
        alias.name: node.module for node in guarded.body for alias in node.names
    }
    at_runtime = {
        name: f"bert_tf.{module}" for name, module in bert_tf._MODULES.items()
    }
    assert for_type_checkers == at_runtime


def test_foundation_imports_tensorflow_only_inside_functions():
    forbidden = {"tensorflow", "keras", "tensorflow_text"}
    foundation = [
        name
        for name in MODULES
        if package_of(name) in FOUNDATION or is_inside(name, "bert_tf.program")
    ]
    assert foundation and not [
        (name, imported)
        for name in foundation
        for imported in imports(name, top_level_only=True)
        if imported.split(".")[0] in forbidden
    ]


def test_task_folders_import_only_what_all_tasks_share():
    names = "task splits tables head_objective distillation_loss results sequences values windows"
    shared = {f"bert_tf.tasks.{name}" for name in names.split()}
    for name in MODULES:
        parts = name.split(".")
        if parts[:2] == ["bert_tf", "tasks"] and len(parts) > 3:
            for imported in imports(name):
                if is_inside(imported, "bert_tf.tasks"):
                    task_folder = ".".join(parts[:3])
                    assert is_inside(imported, task_folder) or imported in shared


def test_training_does_not_depend_on_bert_and_its_packages_have_layers():
    packages = {
        "step": (),
        "tensorflow_step": ("step", "devices"),
        "jax_step": ("step", "devices"),
        "lifecycle": ("step",),
    }
    for name in MODULES:
        if not is_inside(name, "bert_tf.training"):
            continue
        assert not {"bert_tf.config", "bert_tf.record_format"} & imports(name), name
        package = (*name.split("."), "")[2]
        assert package != "jax_step" or "tensorflow" not in imports(name), name
        for imported in imports(name) if package in packages else ():
            if is_inside(imported, "bert_tf.training"):
                lower = (package, "training_config", *packages[package])
                assert imported.split(".")[2] in lower, f"{name} imports {imported}"


def test_imports_have_no_cycles():
    graph = {
        name: {other for other in imports(name) if other in MODULES} for name in MODULES
    }
    list(graphlib.TopologicalSorter(graph).static_order())


def test_flags_are_defined_only_in_mains():
    for name, tree in MODULES.items():
        uses = any(
            isinstance(node, ast.Attribute)
            and node.attr.startswith(("DEFINE_", "FLAGS"))
            for node in ast.walk(tree)
        )
        main = any(
            isinstance(node, ast.FunctionDef) and node.name == "main"
            for node in tree.body
        )
        if uses and name not in (
            "bert_tf.program.command_line",
            "bert_tf.program.help_text",
            "bert_tf.cli.fine_tuning",
            "bert_tf.cli.shared_flags",
            "bert_tf.cli.trained_run",
            "bert_tf.program.config_flags",
        ):
            assert main and is_in_program_folder(name), (
                f"{name} uses flags but is not a main"
            )


def test_flags_are_read_and_never_changed():
    """Only what translates names to flags asks which flags a program has."""
    for name, tree in MODULES.items():
        for node in ast.walk(tree):
            if isinstance(node, (ast.Assign, ast.AugAssign)):
                targets = getattr(node, "targets", None) or [node.target]
                written = [ast.unparse(each) for each in targets]
                assert not any(each.startswith("FLAGS.") for each in written), name
            if isinstance(node, ast.Compare) and isinstance(
                node.ops[0], (ast.In, ast.NotIn)
            ):
                asks = ast.unparse(node.comparators[0]) in ("FLAGS", "flags.FLAGS")
                assert not asks or is_inside(name, "bert_tf.program"), name


# What only programs may do, and the modules of the library that do it for them.
EFFECTS_OF_PROGRAMS = {
    "print": (
        "program.command_line",
        "program.startup",
        "__main__",
        "export.onnx.client",
    ),
    "sys.stdout": ("program.command_line",),
    "sys.stderr": ("program.command_line", "program.startup"),
    "sys.exit": ("program.command_line", "export.check_process"),
    "os._exit": (),
    # TF_CPP_MIN_LOG_LEVEL and KERAS_BACKEND; TF_CONFIG; XLA_FLAGS; TF_ENABLE_ONEDNN_OPTS; the
    # environment of the process of the export check; KERAS_BACKEND and
    # TF_USE_LEGACY_KERAS, which `backend` only reads; ORT_DISABLE_TELEMETRY
    "os.environ": (
        "program.startup",
        "training.tensorflow_step.strategy",
        "training.jax_step.mesh",
        "training.mixed_precision",
        "export.check",
        "backend",
        "optional_packages",
        "export.onnx.client",
    ),
    "signal.signal": ("program.command_line", "training.stop_signals"),
    "logging.basicConfig": (),
    "tf.random.set_seed": (),
    "keras.utils.set_random_seed": (),
    "keras.config.set_dtype_policy": (),
}


def test_the_library_leaves_global_effects_to_programs():
    found = {effect: set() for effect in EFFECTS_OF_PROGRAMS}
    for name, tree in MODULES.items():
        if is_inside(name, "bert_tf") and package_of(name) not in PARTS_OF_PROGRAMS:
            for node in ast.walk(tree):
                if isinstance(node, (ast.Name, ast.Attribute)):
                    effect = ast.unparse(node)
                    if effect in found:
                        found[effect].add(name.removeprefix("bert_tf."))
    assert found == {name: set(each) for name, each in EFFECTS_OF_PROGRAMS.items()}


def test_files_and_functions_stay_small():
    for name, path in PATHS.items():
        lines = code_lines(path.read_text("utf-8"))
        assert len(lines) <= 400, f"{name} has more than 400 lines of code: split it"
        for node in ast.walk(MODULES[name]):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                own = lines & set(range(node.lineno, node.end_lineno + 1))
                assert len(own) <= 60, (
                    f"{name}.{node.name} has more than 60 lines of code"
                )


def test_the_docstring_of_a_package_names_its_modules():
    """Of `run_scripts`, the README may name a program instead of the docstring."""
    packages = {
        name: path
        for name, path in PATHS.items()
        if path.name == "__init__.py" and not is_inside(name, "tools")
    }
    missing = []
    for package, path in packages.items():
        text = ast.get_docstring(MODULES[package]) or ""
        if path.parent.name == "run_scripts":
            text += (ROOT / "README.md").read_text("utf-8")
        modules = {each.stem for each in path.parent.glob("[!_]*.py")}
        modules |= {each.parent.name for each in path.parent.glob("*/__init__.py")}
        missing += [
            f"{package} does not name {name}"
            for name in modules
            if not re.search(rf"\b{name}\b", text)
        ]
    assert packages and not missing


def test_formats_of_exports_import_neither_each_other_nor_what_is_above_them():
    formats = ("bert_tf.export.lite", "bert_tf.export.onnx")
    below = (
        "formats",
        "serving_settings",
        "served",
        "job",
        "assets",
        "model_file",
    )
    for package in formats:
        allowed = {package, *(f"bert_tf.export.{name}" for name in below)}
        for name in (each for each in MODULES if is_inside(each, package)):
            for imported in imports(name):
                if is_inside(imported, "bert_tf.export"):
                    assert any(is_inside(imported, each) for each in allowed), name
