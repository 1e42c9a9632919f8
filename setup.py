"""Packaging of bert-tf. Tool configuration lives in pyproject.toml."""

import pathlib
import re

import setuptools

HERE = pathlib.Path(__file__).parent
VERSION = re.search(
    r'^__version__ = "(.+)"$', (HERE / "bert_tf/__init__.py").read_text("utf-8"), re.M
)[1]
CORE = [
    line
    for line in (HERE / "requirements.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]
SERVING = ["tensorflow-serving-api>=2.20,<2.22"]
LITE = ["ai-edge-litert>=2.0"]
# Beam needs protobuf below 7: it stays out of the core, which takes any.
BEAM = ["apache-beam>=2.70"]
HUB = ["huggingface_hub>=0.30"]
DEV = [
    "pytest>=8",
    "pytest-xdist>=3.6",
    "hypothesis>=6.100",
    "ruff==0.17.5",
    "mypy>=1.15",
    "pre-commit>=4",
    "tokenizers>=0.21",  # a peer for comparison; bert-tf itself does not use it
]
MAINS = {
    "bert-tf-make-sample-data": "data_prep.make_sample_data",
    "bert-tf-train-vocabulary": "data_prep.train_vocabulary",
    "bert-tf-create-pretraining-data": "data_prep.create_pretraining_data",
    "bert-tf-inspect-records": "data_prep.inspect_records",
    "bert-tf-run-pretraining": "run_scripts.run_pretraining",
    "bert-tf-run-classifier": "run_scripts.run_classifier",
    "bert-tf-extract-features": "run_scripts.extract_features",
    "bert-tf-convert-checkpoint": "run_scripts.convert_checkpoint",
    "bert-tf-export-model": "run_scripts.export_model",
    "bert-tf-predict": "run_scripts.predict",
}

setuptools.setup(
    name="bert-tf",
    version=VERSION,
    description="A complete BERT for TensorFlow and Keras 3, from raw text to a served model",
    long_description=(HERE / "README.md").read_text("utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.10,<3.14",
    packages=setuptools.find_packages(include=["bert_tf*", "data_prep*", "run_scripts*"]),
    package_data={
        "bert_tf.tokenization": ["*.npz", "*.bin"],
        "data_prep.sample_data": ["README.txt"],
    },
    install_requires=CORE,
    extras_require={
        "serving": SERVING,
        "lite": LITE,
        "beam": BEAM,
        "gpu": ["tensorflow[and-cuda]>=2.20,<2.22"],
        "hub": HUB,
        "dev": DEV,
        "ci": [*DEV, *BEAM, *HUB],  # what any test imports: none is skipped
    },
    entry_points={"console_scripts": [f"{name} = {module}:run" for name, module in MAINS.items()]},
    classifiers=[
        "Programming Language :: Python :: 3 :: Only",
        *(f"Programming Language :: Python :: 3.{minor}" for minor in range(10, 14)),
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
