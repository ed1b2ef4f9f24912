"""``memorisk plan``: what would be too large to try, on paper. Loads nothing heavy until it runs."""

from typing import Annotated

from cyclopts import App, Parameter

from memorisk.cli.settings import AS_JSON

plan_app = App(name="plan", help="What would it cost? On paper, for sets of any size; no image is read.")


@plan_app.command(name="pairs")
def pairs(
    *,
    synthetic: int,
    train: int | None = None,
    width: int = 512,
    measure: str = "head",
    neighbours: int = 1,
    listed: int = 0,
    bins: int = 0,
    job_rows: int = 8192,
    workers: int = 1,
    card: str | None = None,
    rate: float | None = None,
    memory: float | None = None,
    cards: int = 1,
    share: float | None = None,
    no_timing: Annotated[bool, Parameter(name="--no-timing", negative="")] = False,
    json: AS_JSON = False,
) -> int:
    """Plan a search over all pairs of two sets of vectors: pairs, operations, bytes, jobs, cards, hours.

    What is exact and what is estimated is in docs/costs.md.

    Parameters
    ----------
    synthetic
        Synthetic images.
    train
        Training images; leave it out for all pairs of the synthetic images, each once.
    width
        Numbers of a vector.
    measure
        What compares: head, a Siamese detector's, or one of the 14 measures.
    neighbours
        Most similar images that are kept of each.
    listed
        Pairs above a threshold that are listed, at most.
    bins
        Of a histogram of all pairs.
    job_rows
        Rows of the first table a job.
    workers
        Processes or machines like this one.
    card
        A GPU by its name, such as A100 or H200.
    rate
        In place of a name: its peak in 1e12 float32 operations a second, a multiply-add being two.
    memory
        With --rate: its memory in GB of 1e9 bytes.
    cards
        GPUs.
    share
        Of the peak that a search reaches, as you measured it; without it the hours are a lower bound.
    no_timing
        Do not time a small search on this machine.
    json
        Print the plan as JSON.
    """
    from memorisk.audits.pair_plan import PairPlanOptions, plan_pairs
    from memorisk.cli.show.plan import show_pair_search

    options = PairPlanOptions(
        synthetic=synthetic,
        train=train,
        width=width,
        measure=measure,
        neighbours=neighbours,
        listed=listed,
        bins=bins,
        job_rows=job_rows,
        workers=workers,
        card=card,
        rate=rate,
        memory=memory,
        cards=cards,
        share=share,
        timing=not no_timing,
    )
    show_pair_search(plan_pairs(options), options, as_json=json)
    return 0
