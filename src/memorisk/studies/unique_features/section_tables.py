"""Tables of the results of sections 3.3, A.6, B.1 and B.2 of paper 002: seeds, epochs, self-influence, latents."""

import numpy as np
import pandas as pd

from memorisk.report.columns import column_numbers, column_texts
from memorisk.report.columns import rows as rows_of
from memorisk.statistics.memorization.mark_contrasts import mean_limits, pearson, pearson_p, seed_share
from memorisk.statistics.rank_correlation import spearman
from memorisk.studies.engine.rows import limits
from memorisk.studies.engine.tables import StudyTable, fill_table
from memorisk.studies.unique_features.plan import (
    BASE,
    INFLUENCE,
    LATENT,
    MARKED,
    RANDOM,
    REFERENCE,
    REPEAT,
    Arm,
    arm_columns,
)
from memorisk.studies.unique_features.results import LAYOUT, StudyAnswers

SCORES = {"m_w": "M_w", "m_paper": "M as published", "t": "M"}
"""Scores compared between trainings of one image; M less the references' mean is the same up to a constant."""
LEAST_CANARIES = 10
"""Number of canaries below which a correlation says nothing."""


def seed_table(reading: StudyAnswers) -> StudyTable:
    """(d) Tabulate how much of M_w and M belongs to the image and how much to the training (3.3, B.1, B.2)."""
    rows, images = [], []
    for arm in reading.arms(RANDOM):
        table = reading.rows(arm, RANDOM)
        for score, words in SCORES.items():
            wide = _scores_by_run(table, score)
            share = seed_share(wide)
            redraws = {"m_w": "m_w_sd", "m_paper": "m_paper_sd"}.get(score)
            rows.append(
                {
                    **arm_columns(arm), "score": words, "n_images": share.n_images, "n_runs": share.n_runs,
                    "range": float(np.ptp(wide, axis=1).mean()) if share.n_runs > 1 else float("nan"),
                    "sd_seed": float(np.sqrt(share.within)),
                    "sd_redraws": float(column_numbers(table, redraws).mean()) if redraws else float("nan"),
                    "share": share.share, "share_low": share.low, "share_high": share.high,
                }
            )  # fmt: skip
        images.append(_scores_by_image(arm, table))
    extra = {"images": pd.concat(images, ignore_index=True)} if images else {}
    return fill_table(LAYOUT, "seeds", rows, extra=extra)


def _scores_by_run(table: pd.DataFrame, score: str) -> np.ndarray:
    """Return scores by run, [canaries, runs], of the canaries whose trainings are all there."""
    index, run, values = (column_numbers(table, column) for column in ("index", "run", score))
    wide = np.full((int(index.max()) + 1, int(run.max()) + 1), np.nan)
    wide[index.astype(int), run.astype(int)] = values
    return wide[np.isfinite(wide).all(axis=1)]


def _scores_by_image(arm: Arm, table: pd.DataFrame) -> pd.DataFrame:
    """Tabulate each canary's scores in its first training and their range over trainings (figures 3a to 6)."""
    rows = []
    index = column_numbers(table, "index")
    for i in np.unique(index):
        own = rows_of(table, index == i)
        first = rows_of(own, column_numbers(own, "run") == 0)
        row: dict[str, object] = {**arm_columns(arm), "image": str(int(column_numbers(own, "image")[0]))}
        for score in ("m_w", "m_paper"):
            values, start = column_numbers(own, score), column_numbers(first, score)
            row |= {score: start[0] if len(start) else np.nan, f"{score}_min": values.min()}
            row |= {f"{score}_max": values.max(), f"{score}_mean": values.mean()}
        spread = column_numbers(first, "m_w_sd")
        rows.append(row | {"m_w_sd": spread[0] if len(spread) else np.nan})
    return pd.DataFrame(rows)


def epoch_table(reading: StudyAnswers) -> StudyTable:
    """(e) Tabulate M after each epoch, of canary models and of models without the mark (figure 3c)."""
    rows = []
    for arm in reading.arms(RANDOM, REFERENCE):
        own = [a for a in reading.of(arm, RANDOM) if "profile_t" in a.arrays]
        others = [a for a in reading.of(arm, REFERENCE) if "profile_t" in a.arrays]
        if len(own) < 2:
            continue
        shortest = min(len(a.arrays["profile_t"]) for a in [*own, *others])
        for epoch in range(shortest):
            t, r = (np.array([a.arrays["profile_t"][epoch] for a in group]) for group in (own, others))
            loss = float(np.mean([a.arrays["validation"][epoch] for a in own]))
            rows.append(
                {
                    **arm_columns(arm), "epoch": epoch + 1, **limits("m", mean_limits(t, r if len(r) else None)),
                    **limits("m_paper", mean_limits([a.arrays["profile_m"][epoch] for a in own])),
                    "m_paper_references": float(np.mean([a.arrays["profile_m"][epoch] for a in others] or [np.nan])),
                    "validation": loss, "n_models": len(own), "n_references": len(others),
                }
            )  # fmt: skip
    return fill_table(LAYOUT, "epochs", rows)


def self_influence_table(reading: StudyAnswers) -> StudyTable:
    """(f) Tabulate the self-influence of an image before and after it carries the mark (3.3)."""
    rows = []
    for arm in reading.arms(MARKED):
        base, again = (reading.of(arm, role) for role in (BASE, REPEAT))
        if not base:
            continue
        before = base[0].arrays["influence"]
        retrained = again[0].arrays["influence"] if again else np.full(len(before), np.nan)
        for answer in reading.of(arm, MARKED):
            slot = answer.training.job.canary
            assert slot is not None
            after = float(answer.arrays["influence"][0])
            rows.append(
                {
                    **arm_columns(arm), "image": str(int(answer.training.job.rows[slot])),
                    "chosen": answer.training.chosen, "before": float(before[slot]), "after": after,
                    "ratio": after / max(float(before[slot]), 1e-300), "retrained": float(retrained[slot]),
                    "place": float((before < after).mean()),
                    "agreement": spearman(before, retrained) if again else float("nan"),
                }
            )  # fmt: skip
    return fill_table(LAYOUT, "before_after", rows)


def latent_table(reading: StudyAnswers) -> StudyTable:
    """(g) Tabulate latents before the last layer that the mark excites in models that saw it (A.6, figure 3b)."""
    rows, drawn = [], []
    for arm in reading.arms(LATENT):
        answers = {(a.training.index, a.marked): a.arrays for a in reading.of(arm, LATENT)}
        both = sorted(i for i, marked in answers if marked and (i, False) in answers)
        if len(both) < 4:
            continue
        mark, random = (np.array([answers[i, True][name] for i in both]) for name in ("latent_mark", "latent_random"))
        without = np.array([answers[i, False]["latent_mark"] for i in both])
        rows.append(arm_columns(arm) | _chosen_latent(mark, random, without))
        frame = pd.DataFrame({"latent": np.arange(mark.shape[1]), "mark": mark.mean(0), "random": random.mean(0)})
        drawn.append(frame.assign(without=without.mean(0), **arm_columns(arm)))
    extra = {"by_latent": pd.concat(drawn, ignore_index=True)} if drawn else {}
    return fill_table(LAYOUT, "latents", rows, extra=extra)


def _chosen_latent(mark: np.ndarray, random: np.ndarray, without: np.ndarray) -> dict[str, object]:
    """Choose a latent on the even images and measure it on the odd ones; do the same for the paper's latent."""
    columns: dict[str, object] = {"n_latents": mark.shape[1], "n_chosen": len(mark[0::2]), "n_models": len(mark[1::2])}
    for name, excess in (("", mark - without), ("paper_", mark - random)):
        best = int(np.argmax(excess[0::2].mean(axis=0)))
        columns |= {
            f"{name}latent": best, f"{name}mark": float(mark[1::2, best].mean()),
            f"{name}random": float(random[1::2, best].mean()), f"{name}without": float(without[1::2, best].mean()),
        } | limits(f"{name}excess", mean_limits((mark - without)[1::2, best]))  # fmt: skip
    return columns


def influence_table(reading: StudyAnswers) -> StudyTable:
    """(h) Tabulate whether the mark is remembered more on influential images: Pearson's r, highest - lowest (3.3)."""
    rows = []
    for arm in reading.arms(INFLUENCE):
        table = reading.rows(arm, INFLUENCE)
        table = rows_of(table, np.isfinite(column_numbers(table, "self_influence")))
        chosen = np.array(column_texts(table, "chosen"))
        for score, words in {"m_paper": "M as published", "t": "M"}.items():
            x, y = column_numbers(table, "self_influence"), column_numbers(table, score)
            if len(x) < LEAST_CANARIES:
                continue
            top, bottom = (y[chosen == which] for which in ("highest", "lowest"))
            row = {**arm_columns(arm), "score": words, **limits("r", pearson(x, y)), "p": pearson_p(x, y)}
            rows.append({**row, **limits("apart", mean_limits(top, bottom)), "n_canaries": len(x)})
    return fill_table(LAYOUT, "influence", rows)


def setup_table(reading: StudyAnswers) -> StudyTable:
    """Tabulate networks, data sets, images, trainings and how well the models name unseen images."""
    rows = []
    arms = list(dict.fromkeys(a.training.arm for a in reading.answers))
    for arm in arms:
        answers = [a for a in reading.answers if a.training.arm == arm]
        data, options = reading.sets[arm.dataset], answers[0].training.job.options
        accuracy = [float(a.arrays["accuracy"]) for a in answers]
        counts = np.bincount(data.labels[data.validation])
        rows.append(
            {
                **arm_columns(arm), "n_images": len(data.rows), "n_validation": len(data.validation),
                "left_out": len(data.store.skipped), "probes_left_out": data.probes_left_out,
                "n_probes": len(data.probes.images), "n_controls": len(data.controls), "trainings": len(answers),
                "accuracy": float(np.mean(accuracy)), "majority": float(counts.max() / counts.sum()),
                "epochs": float(np.median([int(a.arrays["best_epoch"]) for a in answers])),
                "lr": options.lr, "batch_size": options.batch_size, "augment": options.augment or "none",
                "transparent": float(max(a.arrays["transparent"] for a in answers)),
            }
        )  # fmt: skip
    return fill_table(LAYOUT, "networks", rows)
