"""``memorisk explain``: arguments for ``audits.classifier.explanations.run``. Loads nothing heavy until it runs."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def explain(
    run: Path,
    *,
    features: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = ("before",),
    feature_weights: str | None = None,
    feature_size: int | None = None,
    probes: Annotated[bool, Parameter(negative="")] = False,
    probe_seed: int | None = None,
    images: str | None = None,
    device: str = "auto",
    out: Path | None = None,
    json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> int:
    """Look into a finished classifier audit: are its memorized images atypical, and where in the network is it?

    Parameters
    ----------
    run
        Run folder of `audit classifier`.
    features
        Feature spaces: names of networks, files (.npy, .npz, .parquet) with a row per image, or "before": the run's own
        network before it was fine-tuned.
    feature_weights
        Weights of the named networks: a file (of one), "default" to download them, "none" for random ones.
    feature_size
        Pixels a side that the named networks get; by default what they were trained at.
    probes
        Probe every layer of one of the run's models for M, and compare it with its twin.
    probe_seed
        Seed whose models are probed; the run's first if not given.
    images
        Where the run's images are now, if they have moved.
    device
        cpu, cuda, or auto: a GPU when there is one.
    out
        Folder to write; explain inside the run folder if not given.
    json
        Print what was found as JSON.
    """
    from memorisk.audits.classifier.explanations.run import FOLDER
    from memorisk.audits.classifier.explanations.run import explain as look
    from memorisk.cli.show.common import progress_bar, show_explanation

    with progress_bar() as progress:
        found = look(
            run,
            features=features,
            feature_weights=feature_weights,
            feature_size=feature_size,
            probes=probes,
            probe_seed=probe_seed,
            images=images,
            device=device,
            out=out,
            progress=progress,
        )
    show_explanation(found, out if out is not None else run / FOLDER, as_json=json)
    return 0
