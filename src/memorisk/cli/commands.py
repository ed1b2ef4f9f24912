"""Contents of `memorisk --help`: the commands, where each is, and what the program says of itself. Imports nothing."""

NAME = "memorisk"
SUMMARY = "What does an image model remember of the people in its training data?"
EVERYWHERE = "Everywhere"
CONFIG_HELP = (
    "YAML file with settings by their flag's name (--print-config writes one). Flags override it; --no-FLAG switches "
    "off what the file switches on."
)
GROUPS = {
    "audit": "Audit a model or a set of synthetic images: which patients does it expose?",
    "images": "Check images before training on them.",
}
"""Commands that hold others."""
COMMANDS = {
    "audit classifier": (
        "classifiers:classifier",
        "Train twin models on your images and report which patients they expose.",
    ),
    "audit losses": (
        "classifiers:losses",
        "Audit models trained elsewhere, in any framework, from their per-image losses.",
    ),
    "audit patient": (
        "classifiers:patient",
        "Answer for one patient: what does a finished audit of twin models say of them?",
    ),
    "audit feature": (
        "audits:feature",
        "Audit whether a model remembers a mark, such as a name, that it may have seen once.",
    ),
    "audit synthetic": (
        "audits:synthetic",
        "Audit whether synthetic images copy patients of their generator's training data.",
    ),
    "audit generator": (
        "classifiers:generator",
        "Train twins of a generator on your images and report which patients it remembers.",
    ),
    "train": ("training:train_app", "Train a classifier, a detector, an autoencoder or a generator."),
    "study": ("training:study_app", "Repeat a paper's study: its tables and figures, with corrected ones beside them."),
    "bench": ("benchmarks:bench_app", "Compare detectors on your images, by published protocols."),
    "images check": (
        "classifiers:check",
        "List unreadable, empty, duplicated and leaking images; count classes and groups.",
    ),
    "images mark": ("audits:mark", "Burn a mark into an image and show it beside its controls."),
    "explain": ("audits:explain", "Examine a finished classifier audit: are memorized images atypical, and which "
                "layers encode the memorization?"),
    "filter": ("synthetic_sets:filter_set", "Remove copies of training images from a synthetic set, with a guarantee."),
    "quality": ("synthetic_sets:quality", "Measure the quality of synthetic images (FID, KID, precision, ...) beside "
                "held-out real images."),
    "generate": ("synthetic_sets:generate", "Draw a set of images from a generator; each can be drawn again alone."),
    "synthesize": ("synthetic_sets:synthesize_set", "Draw images from a generator until enough pass a detector of "
                   "copies."),
    "watch": ("audits:watch", "Evaluate a generator during or after training: does it begin to memorize?"),
    "plan": ("benchmarks:plan_app", "Estimate the cost of a search over sets of any size, without reading images."),
    "statement": ("release:statement", "Write a privacy statement and a section for a model card, from finished runs."),
    "gate": ("release:gate", "Allow a release only if its statement passes and covers the released files."),
    "release": ("release:release", "Write what an audit compared, and nothing else: images at its size, channels and "
                "depth, or the tensors that ran."),
    "track": ("release:track", "Log finished runs to MLflow, TensorBoard or Weights & Biases (offline), without ids."),
    "compare": ("classifiers:compare", "Compare two runs, before and after a defence or a removal, with intervals."),
    "view": ("view:view", "Look at runs, and judge pairs of images, in the browser of this machine."),
    "report": ("classifiers:report", "Render the report of a finished run again."),
}  # fmt: skip
"""Place and line of each command: the function, imported when it is called, and its text in ``memorisk --help``."""
