"""Packaging of bert-tf. Tool configuration lives in pyproject.toml."""

import pathlib
import re

import setuptools

HERE = pathlib.Path(__file__).parent
VERSION = "0.2.0"
CORE = [
    line
    for line in (HERE / "requirements.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]
SERVING = ["tensorflow-serving-api>=2.20,<2.22"]
LITE = ["ai-edge-litert>=2.0"]
MEDIAPIPE = ["mediapipe>=1.2"]
ONNX = ["tf2onnx>=1.17", "onnxruntime>=1.20", "onnx>=1.17"]
OPENVINO = ["openvino>=2025.0"]
# Beam needs protobuf below 7: it stays out of the core, which takes any.
BEAM = ["apache-beam>=2.70"]
DASK = ["distributed>=2024.8"]
DEMO = ["gradio>=6.31"]
# Opens the page of the demo in a browser, for a test.
BROWSER = ["playwright>=1.50"]
HUB = ["huggingface_hub>=0.30"]
# Keras also runs on PyTorch, if torch is installed.
BACKENDS = ["jax>=0.5"]
PARQUET = ["pyarrow>=16"]  # the first one for NumPy 2
KERAS_HUB = ["keras-hub>=0.32; python_version>='3.11'"]  # a peer for comparison
DOCS = [
    "sphinx>=8",
    "myst-nb>=1.4",
    "furo>=2025.12.19",
    "nbclient>=0.10",
    "ipykernel>=6",
]
DEV = [
    "setuptools>=77",  # builds the wheel that a test installs
    "pytest>=8",
    "pytest-xdist>=3.6",
    "coverage>=7.6",  # of tools/mutants.py
    "hypothesis>=6.100",
    "ruff==0.17.5",
    "mypy>=1.15",
    "pre-commit>=4",
    "tokenizers>=0.21",  # a peer for comparison; bert-tf itself does not use it
]
# Other implementations of entity F1, for comparison.
ENTITY_F1 = ["seqeval>=1.2.2", "conlleval>=0.2"]
# These folders are installed inside bert_tf, because their names are generic: other
# projects may install top-level packages of the same names.
PROGRAM_FOLDERS = ("data_prep", "run_scripts")
PACKAGES = [
    *setuptools.find_packages(include=["bert_tf*"]),
    *(
        f"bert_tf.{package}"
        for folder in PROGRAM_FOLDERS
        for package in setuptools.find_packages(include=[f"{folder}*"])
    ),
]
URL = "https://github.com/bert-tf/bert-tf"
# A package index does not resolve the relative links of the README.
README = re.sub(
    r"\]\((?!https?://|#)",
    f"]({URL}/blob/v{VERSION}/",
    (HERE / "README.md").read_text("utf-8"),
)
README = re.sub(r"/blob/(\S+\.png\))", r"/raw/\1", README)  # the picture itself
MAINS = {
    "bert-tf-make-sample-data": "bert_tf.data_prep.make_sample_data",
    "bert-tf-train-vocabulary": "bert_tf.data_prep.train_vocabulary",
    "bert-tf-create-pretraining-data": "bert_tf.data_prep.create_pretraining_data",
    "bert-tf-inspect-records": "bert_tf.data_prep.inspect_records",
    "bert-tf-run-pretraining": "bert_tf.run_scripts.run_pretraining",
    "bert-tf-run-classifier": "bert_tf.run_scripts.run_classifier",
    "bert-tf-run-squad": "bert_tf.run_scripts.run_squad",
    "bert-tf-run-embedding": "bert_tf.run_scripts.run_embedding",
    "bert-tf-run-swag": "bert_tf.run_scripts.run_swag",
    "bert-tf-run-ner": "bert_tf.run_scripts.run_ner",
    "bert-tf-sweep": "bert_tf.run_scripts.sweep",
    "bert-tf-make-glue-submission": "bert_tf.run_scripts.make_glue_submission",
    "bert-tf-extract-features": "bert_tf.run_scripts.extract_features",
    "bert-tf-convert-checkpoint": "bert_tf.run_scripts.convert_checkpoint",
    "bert-tf-adapt-vocabulary": "bert_tf.run_scripts.adapt_vocabulary",
    "bert-tf-export-model": "bert_tf.run_scripts.export_model",
    "bert-tf-predict": "bert_tf.run_scripts.predict",
    "bert-tf-demo": "bert_tf.run_scripts.demo",
}

setuptools.setup(
    name="bert-tf",
    version=VERSION,
    description="A complete BERT for TensorFlow and Keras 3, "
    "from raw text to a served model",
    long_description=README,
    long_description_content_type="text/markdown",
    author="The bert-tf authors",
    url=URL,
    project_urls={
        "Documentation": f"{URL}/blob/v{VERSION}/docs/README.md",
        "Changelog": f"{URL}/blob/v{VERSION}/CHANGELOG.md",
        "Issues": f"{URL}/issues",
    },
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.10,<3.14",
    packages=PACKAGES,
    package_dir={f"bert_tf.{folder}": folder for folder in PROGRAM_FOLDERS},
    package_data={
        "bert_tf": ["py.typed"],
        "bert_tf.export": ["saved_model_allowed_operations.txt"],
        "bert_tf.tokenization": ["*.npz", "*.bin"],
        "bert_tf.sample_data": ["README.txt"],
        "bert_tf.run_scripts": ["recipes/*.sh"],
    },
    install_requires=CORE,
    extras_require={
        "serving": SERVING,
        "lite": LITE,
        "mediapipe": [*LITE, *MEDIAPIPE],
        "onnx": ONNX,
        "openvino": [*ONNX, *OPENVINO],
        "beam": BEAM,
        "dask": DASK,
        "gpu": ["tensorflow[and-cuda]>=2.20,<2.22"],
        "hub": HUB,
        "demo": DEMO,
        "backends": BACKENDS,
        "parquet": PARQUET,
        "docs": DOCS,
        "dev": DEV,
        # The packages that any test imports, so that none is skipped.
        "ci": [
            *DEV,
            *BEAM,
            *DASK,
            *HUB,
            *DEMO,
            *BROWSER,
            *PARQUET,
            *KERAS_HUB,
            *DOCS,
            *SERVING,
            *LITE,
            *MEDIAPIPE,
            *ONNX,
            *OPENVINO,
            *ENTITY_F1,
        ],
    },
    entry_points={
        "console_scripts": [f"{name} = {module}:run" for name, module in MAINS.items()]
    },
    classifiers=[
        "Programming Language :: Python :: 3 :: Only",
        *(f"Programming Language :: Python :: 3.{minor}" for minor in range(10, 14)),
        "Typing :: Typed",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
