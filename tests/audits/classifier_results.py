"""Results of a classifier audit made up from random numbers, for the tests of its page."""

import numpy as np
import pandas as pd

from memorisk.report.result import Result
from memorisk.report.verdict_forms import FORMS

NAMES = ("melanoma", "naevus", "keratosis", "vascular lesion", "dermatofibroma")
HOSTILE = (
    "<script>document.title='hacked'</script>",
    '"><img src=x onerror="document.title=\'hacked\'">',
    "a'b\"c\nd\te",
    "left\u202egnp.thgir\u2066x",
    "🫀 👩\u200d⚕️ 高危 ליל",
    "{{7*7}}{% raw %}${7*7}$x_1$",
    "</style></svg></title><svg onload=document.title='hacked'>",
    "undecodable\udcff" + "W" * 90,
    "javascript:document.title='hacked'",
    "]]>&lt;b&gt;&#x27;",
)


def make_result(labels=NAMES, *, seed=0, status="fail", ids=None, groups_of=3, images=400, **summary) -> Result:
    """A result with every table and key that the page reads; ``ids`` maps a running number to an id."""
    rng = np.random.default_rng(seed)
    ids = ids or (lambda kind, i: f"{kind}-{i:04d}")
    per_image = _images(rng, labels, ids, groups_of, images)
    per_group = _groups(rng, per_image)
    per_class = _classes(rng, labels, per_image, per_group)
    null = rng.normal(0, 0.12, 300)
    verdict = {
        "schema": 2,
        "audit": "classifier",
        "rule": {"form": FORMS["classifier"], "level": 0.1, "correction": "bh", "notice": 2.0},
        "status": status,
        "gate": "high",
        "why": [f"class {labels[1]}: the lower limit of its mean is above 0.3", "class naevus: 3 groups are flagged"],
        "what_would_decide": ["more models", f"more images of {labels[-1]}"],
        "flagged_groups": per_group.loc[per_group["flagged"], "group"].tolist(),
        "level": 0.1,
    }
    return Result(
        per_image=per_image,
        per_group=per_group,
        per_class=per_class,
        attacks=_attacks(rng, labels),
        verdict=verdict,
        summary={
            "design": "balanced",
            "protocol": "corrected",
            "n_images": images + 60,
            "n_groups": len(set(per_group["group"])) + 20,
            "n_classes": len(labels),
            "n_train": 0,
            "n_canary": images,
            "n_test": 60,
            "n_models": 16,
            "seeds": [123, 456, 789, 1024, 1025, 1026, 1027, 1028],
            "model": "small_cnn",
            "training": {"epochs": 30, "optimizer": "adam", "lr": 1e-4, "augment": None, "batch_size": 64},
            "level_q": 0.1,
            "noticeable": {
                **{"gap": 1.41, "label": labels[0], "power": 0.83, "low": 0.79, "high": 0.86},
                **{"probability": 0.8, "notice": 2.0},
            },
            "not_scored_images": 60,
            "not_scored_groups": 20,
            "not_auditable": ["too small a class"],
            "data_hash": "0f3a9c7e21b4d586",
            "versions": {"memorisk": "0.1.0", "torch": "2.15.0", "python": "3.11.2"},
            "roc": _roc(rng),
            "null": {"members": per_image["M"].tolist(), "null": null},
            "placebo": {
                "n_repeats": 20,
                "with_list": 1,
                "all": {"share": 0.051, "low": 0.043, "high": 0.057, "canaries": 400.0, "tests": 60.0},
            },
            "dataset": "skin",
            "form": "the corrected form, design balanced: 8 twin pairs, 16 models",
            "n_trained_on": 200.0,
            "utility": {"test_accuracy": 0.86, "test_balanced_accuracy": 0.71, "majority_share": 0.515},
            "pseudonymised": False,
            "notes": ["two images were skipped: unreadable"],
            "rarest_vs_top": {
                "label_rarest": labels[0],
                "label_top": labels[1],
                "n_rarest": int(per_class["n"].iloc[0]),
                "difference": 0.31,
                "low": 0.1,
                "high": 0.52,
            },
            "agreement": {
                "other_seeds": {
                    "spearman": {"estimate": 0.41, "low": 0.3, "high": 0.5},
                    "success_high": 0.83,
                    "success_low": 0.51,
                }
            },
        }
        | summary,
    )


def _images(rng, labels, ids, groups_of, n):
    share = 0.5 ** np.arange(len(labels))[::-1]
    label = rng.choice(len(labels), n, p=share / share.sum())
    label[: len(labels)] = np.arange(len(labels))
    strength = np.linspace(0.45, 0.0, len(labels))
    strength[:2] = strength[1::-1]  # the rarest class is not the most memorized
    m = rng.normal(0.02, 0.1, n) + rng.exponential(1, n) * strength[label]
    unseen = rng.exponential(0.6, n) + np.maximum(m, 0)
    return pd.DataFrame(
        {
            "image": pd.Series([ids("image", i) for i in range(n)], dtype=object),
            "label": pd.Series([labels[i] for i in label], dtype=object),
            "group": pd.Series([ids("patient", i // groups_of) for i in range(n)], dtype=object),
            "split": "canary",
            "M": m,
            "p_value": rng.random(n),
            "flagged": False,
            "n_seeds": 8,
            "loss_unseen": unseen,
            "loss_seen": unseen - m,
        }
    )


def _groups(rng, per_image):
    # By hand: pandas groups no text with a lone surrogate in it.
    found: dict[tuple[str, str], list[float]] = {}
    for label, group, m in zip(per_image["label"], per_image["group"], per_image["M"], strict=True):
        found.setdefault((label, group), []).append(m)
    keys = sorted(found)
    table = pd.DataFrame(
        {
            "label": pd.Series([k[0] for k in keys], dtype=object),
            "group": pd.Series([k[1] for k in keys], dtype=object),
            "n_images": [len(found[k]) for k in keys],
            "M": [max(found[k]) for k in keys],
            "M_mean": [float(np.mean(found[k])) for k in keys],
        }
    )
    p = np.clip(np.exp(-4 * np.maximum(table["M"], 0)) * rng.random(len(table)), 1e-5, 1)
    return table.assign(n_seeds=8, p_value=p, adjusted=np.minimum(1, 4 * p), flagged=p < 0.01)


def _classes(rng, labels, per_image, per_group):
    rows = []
    for i, label in enumerate(labels):
        m = per_image.loc[per_image["label"] == label, "M"].to_numpy()
        half = 1.96 * m.std() / np.sqrt(len(m)) + 0.02
        groups = per_group[per_group["label"] == label]
        few = len(groups) < 10
        tier = (
            "insufficient evidence" if few else "HIGH" if m.mean() > 0.3 else "MODERATE" if m.mean() >= 0.1 else "LOW"
        )
        rows.append(
            {
                "label": label,
                "n": len(m) + 12,
                "frequency": (len(m) + 12) / (len(per_image) + 60),
                "n_groups": len(groups) + 4,
                "n_scored": len(m),
                "n_groups_scored": len(groups),
                "n_test_groups": 4,
                "mean": m.mean(),
                "median": np.median(m),
                "trimmed_mean": np.sort(m)[len(m) // 10 : len(m) - len(m) // 10].mean(),
                "low": m.mean() - half,
                "high": m.mean() + half,
                "tier": tier,
                "smallest_list": np.nan if few else 1.0 + i,
                "flagged": int(groups["flagged"].sum()),
                "testable": not few,
                "why_not": "cannot be tested: the smallest list is 14, the class has 5 scored" if few else "",
                "median_low": np.median(m) - half,
                "median_high": np.median(m) + half,
                "trimmed_low": m.mean() - half,
                "trimmed_high": m.mean() + half,
                "df": 7.3,
                "prerequisite_p": rng.random(),
            }
        )
    return _with_texts(rows, "label")


def _attacks(rng, labels):
    rows = []
    for label in ("(all)", *labels):
        for attack, auc, control in (
            ("loss_threshold", 0.62, False),
            ("differential", 0.71, False),
            ("lira_offline", 0.74, False),
            ("independent_loss", 0.503, True),
        ):
            centre = auc + (0 if label == "(all)" else rng.normal(0, 0.02))
            rows.append(
                {
                    "label": label,
                    "attack": attack,
                    "auc": centre,
                    "low": centre - 0.03,
                    "high": centre + 0.03,
                    "tpr_at_1pct": 0.034 if label == "(all)" else np.nan,
                    "tpr_low": 0.012 if label == "(all)" else 0.0,
                    "tpr_high": 0.071 if label == "(all)" else 1.0,
                    "tpr_at_01pct": np.nan,
                    "balanced_accuracy": 0.5 + (centre - 0.5) / 1.5,
                    "n_members": 200,
                    "n_non_members": 1200 if label == "(all)" else 60,
                    "n_groups": 90,
                    "n_models": 8,
                    "conditional": False,
                    "control": control,
                    "note": "rests on the twin's loss" if attack == "differential" else "",
                }
            )
    return _with_texts(rows, "label", "attack")


def _with_texts(rows, *columns):
    """A table whose text columns hold any text: pandas' own text type takes no lone surrogate."""
    table = pd.DataFrame([{k: v for k, v in row.items() if k not in columns} for row in rows])
    for column in columns[::-1]:
        table.insert(0, column, pd.Series([row[column] for row in rows], dtype=object))
    return table


def _roc(rng):
    out = {}
    for attack, shift in (
        ("loss_threshold", 0.4),
        ("differential", 0.8),
        ("lira_offline", 0.95),
        ("independent_loss", 0.0),
    ):
        non, member = np.sort(rng.normal(0, 1, 1200))[::-1], rng.normal(shift, 1, 200)
        fpr = np.arange(1201) / 1200
        tpr = np.array([0.0, *((member[:, None] >= non[None, :]).mean(axis=0))])
        out[attack] = {"fpr": fpr, "tpr": tpr}
    return out


TARGET = {
    "file": "released.safetensors",
    "n_members": 400,
    "accuracy_members": 0.99,
    "attacks": {"loss_threshold": {"auc": 0.66, "low": 0.6, "high": 0.72, "n_members": 400, "n_non_members": 60}},
    "control": {"auc": 0.51, "low": 0.45, "high": 0.57, "n_members": 400, "n_non_members": 60},
    "classes": [
        {
            "label": "a",
            "attack": "loss_threshold",
            "auc": 0.81,
            "low": 0.7,
            "high": 0.9,
            "n_members": 9,
            "n_non_members": 8,
        }
    ],
    "replication": {
        "loss_members": {"target": 0.011, "twins": 0.2, "low": 0.12, "high": 0.31, "within": False},
        "loss": {"target": 0.41, "twins": 0.52, "low": 0.44, "high": 0.6, "within": False},
        "accuracy": {"target": 0.88, "twins": 0.86, "low": 0.84, "high": 0.88, "within": True},
        "replicated": False,
    },
}


def hostile_result(**changes) -> Result:
    """The same with hostile class names, ids and notes."""
    bad = HOSTILE
    changes = {
        "notes": list(bad),
        "not_auditable": list(bad),
        "model": bad[0],
        "training": dict.fromkeys(bad[:7], bad[1]),
    } | changes
    return make_result(
        bad,
        ids=lambda kind, i: f"{bad[i % len(bad)]}{kind}{i}",
        images=600,
        versions={"memorisk": bad[1], "torch": bad[3]},
        **changes,
    )
