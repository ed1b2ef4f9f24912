"""Who is compared with memorisk, on what, and what a reader should know of it. No measured number stands here."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Peer:
    """Another project."""

    title: str
    """As it calls itself."""
    module: str
    """Its adapter in ``adapters/``."""
    how: str
    """"package" or "formula"."""
    where: str
    """What was installed or, where nothing could be, why, and whose published code the formula is of."""
    libraries: tuple[str, ...] = ("numpy",)
    """Whose versions are told."""


@dataclass(frozen=True)
class Case:
    """One figure, asked of both sides."""

    peer: str
    """Key of `PEERS`."""
    case: str
    """Key of the adapter's CASES."""
    ours: str
    """Key of memorisk's."""
    inputs: str
    """Key of INPUTS."""
    title: str
    """For the reader."""
    kind: str
    """How two answers are compared: a function of `comparing`."""
    note: str = ""
    """Whose definition differs and which one memorisk follows."""
    explained: str = ""
    """memorisk's result by that other definition."""


PEERS: dict[str, Peer] = {
    "sacroml": Peer(
        title="SACRO-ML",
        module="peer_sacroml",
        how="package",
        where=(
            "sacroml 2.0.1 from the index, PyTorch linked. LiRA is asked from the shadow models' confidences on, "
            "`LIRAAttack._compute_scores`, since the public entry trains the models itself; a test of normality "
            "for every image is part of its time."
        ),
        libraries=("sacroml", "numpy", "scipy"),
    ),
    "tensorflow-privacy": Peer(
        title="TensorFlow Privacy",
        module="peer_tensorflow_privacy",
        how="package",
        where=(
            "tensorflow-privacy 0.9.0 has no LiRA: it was moved to tensorflow-empirical-privacy 0.1.0 of the same "
            "project, installed beside it without its dependencies. TensorFlow is held at 2.15.1: with what pip "
            'takes by itself (2.21.0) `import tensorflow_privacy` ends in "ImportError: cannot import name '
            "'estimator_training' from 'tensorflow.python.distribute'\"."
        ),
        libraries=("tensorflow-privacy", "tensorflow-empirical-privacy", "tensorflow", "numpy", "scipy"),
    ),
    "privacy-meter": Peer(
        title="ML Privacy Meter",
        module="peer_privacy_meter",
        how="package",
        where=(
            "Privacy-Meter 1.0.1 from the index, which is the real project in a release of before RMIA. It "
            "declares no dependencies and imports TensorFlow, PyTorch and Opacus, which were added (PyTorch and "
            "Opacus linked)."
        ),
        libraries=("Privacy-Meter", "tensorflow-cpu", "torch", "numpy"),
    ),
    "leakpro": Peer(
        title="LeakPro",
        module="peer_leakpro",
        how="formula",
        where=(
            'The name on the index is another project\'s: leakpro 0.0.1, described as "Test", holds an empty '
            "module and names neither LeakPro's authors nor its repository. `pip download leakpro` therefore "
            "gives nothing to compare. By formula, after aidotse/LeakPro on GitHub."
        ),
        libraries=("numpy", "scipy"),
    ),
    "rmia-authors": Peer(
        title="ML Privacy Meter's repository and PrivacyGuard",
        module="peer_rmia_authors",
        how="formula",
        where=(
            "ML Privacy Meter's RMIA is in its repository and in no release on the index. The name on the index "
            "is another project's: privacy-guard 0.1.0 masks fields of personal data in tables and has no attack "
            "in it. `pip download privacy-guard` therefore gives nothing to compare. By formula, after "
            "privacytrustlab/ml_privacy_meter and facebookresearch/PrivacyGuard on GitHub, whose RMIA is the "
            "same."
        ),
        libraries=("numpy", "scipy"),
    ),
    "captum": Peer(
        title="captum",
        module="peer_captum",
        how="package",
        where=(
            "captum 0.9.0 in memorisk's own environment, where it is an extra (`[dev]`): the tests use it as an oracle."
        ),
        libraries=("captum", "torch", "numpy"),
    ),
    "dattri": Peer(
        title="dattri",
        module="peer_dattri",
        how="package",
        where="dattri 0.3.0 from the index, PyTorch linked.",
        libraries=("dattri", "torch", "numpy"),
    ),
    "imagededup": Peer(
        title="imagededup",
        module="peer_imagededup",
        how="package",
        where=(
            "imagededup 0.3.3 from the index, PyTorch linked. Importing it fetches a MobileNet's weights from the "
            "network; that network gets random weights here and is not used, the CNN is SqueezeNet 1.1 with "
            "ImageNet's weights from a local file, on both sides."
        ),
        libraries=("imagededup", "torch", "torchvision", "numpy"),
    ),
    "dgm-eval": Peer(
        title="dgm-eval",
        module="peer_dgm_eval",
        how="formula",
        where=(
            "Not on the index (`pip download dgm-eval`: ERROR: Could not find a version that satisfies the "
            "requirement dgm-eval (from versions: none)). By formula, after layer6ai-labs/dgm-eval on GitHub."
        ),
        libraries=("numpy", "scipy", "torch"),
    ),
    "torch-fidelity": Peer(
        title="torch-fidelity",
        module="peer_torch_fidelity",
        how="package",
        where=("torch-fidelity 0.4.0 from the index, PyTorch linked; features are given, no network is fetched."),
        libraries=("torch-fidelity", "torch", "numpy"),
    ),
    "faiss": Peer(
        title="faiss",
        module="peer_faiss",
        how="package",
        where="faiss-cpu 1.15.1 from the index.",
        libraries=("faiss-cpu", "numpy"),
    ),
}
"""By name on the command line."""

CASES: tuple[Case, ...] = (
    Case(
        peer="sacroml",
        case="lira_online",
        ours="lira_online",
        inputs="membership",
        title="LiRA online, mean, variance per image",
        kind="scores",
        note=("Their phi is made of a probability, clipped at 1e-16; memorisk's of logits (1 - p is never formed)."),
    ),
    Case(
        peer="sacroml",
        case="lira_online_fixed",
        ours="lira_online_global",
        inputs="membership",
        title="LiRA online, one variance for all",
        kind="scores",
    ),
    Case(
        peer="sacroml",
        case="lira_offline",
        ours="lira_offline_probability",
        inputs="membership",
        title="LiRA offline, one-sided probability",
        kind="scores",
        note=(
            "They keep the probability, in which images far out tie at 1; memorisk its argument, the quantile "
            "(compared here as a probability)."
        ),
    ),
    Case(
        peer="tensorflow-privacy",
        case="lira_online",
        ours="lira_online",
        inputs="membership",
        title="LiRA online, mean, variance per image",
        kind="scores",
    ),
    Case(
        peer="tensorflow-privacy",
        case="lira_online_median",
        ours="lira_online_median",
        inputs="membership",
        title="LiRA online, median, variance per image (its default)",
        kind="scores",
    ),
    Case(
        peer="tensorflow-privacy",
        case="lira_online_fixed",
        ours="lira_online_pooled",
        inputs="membership",
        title="LiRA online, one variance for all",
        kind="scores",
        note=(
            "Another definition: residuals about each image's mean over their number; memorisk divides by the "
            "degrees of freedom that the means leave."
        ),
        explained="pooled_by_number",
    ),
    Case(
        peer="tensorflow-privacy",
        case="lira_offline",
        ours="lira_offline",
        inputs="membership",
        title="LiRA offline",
        kind="scores",
        note=(
            "Another definition: a two-sided density, as in the authors' released code, which calls an image a "
            "member also for a phi that is unusually low. memorisk follows the one-sided probability of the paper "
            "(Carlini and others 2022)."
        ),
        explained="two_sided",
    ),
    Case(
        peer="leakpro",
        case="lira_online",
        ours="lira_online",
        inputs="membership",
        title="LiRA online, variance per image",
        kind="scores",
    ),
    Case(
        peer="leakpro",
        case="lira_online_fixed",
        ours="lira_online_global",
        inputs="membership",
        title="LiRA online, one variance for all",
        kind="scores",
    ),
    Case(
        peer="leakpro",
        case="lira_offline",
        ours="lira_offline",
        inputs="membership",
        title="LiRA offline",
        kind="scores",
    ),
    Case(
        peer="leakpro",
        case="rmia_online",
        ours="rmia_online_2",
        inputs="membership",
        title="RMIA online, gamma 2",
        kind="scores",
        note=("memorisk counts LR >= gamma as the paper does, they LR > gamma, and they add 1e-6 to p(x) and p(z)."),
    ),
    Case(
        peer="leakpro",
        case="rmia_offline",
        ours="rmia_offline_2",
        inputs="membership",
        title="RMIA offline, gamma 2, a 0.33",
        kind="scores",
        note=(
            "memorisk counts LR >= gamma as the paper does, they LR > gamma, and they add 1e-6 to p(x) and p(z). "
            "Their own population is drawn from the attack's images, members of the target "
            "among them; memorisk's holds non-members only, and both sides are given these here."
        ),
    ),
    Case(
        peer="rmia-authors",
        case="rmia_offline",
        ours="rmia_offline_1",
        inputs="membership",
        title="RMIA offline, gamma 1, a 0.3",
        kind="scores",
        note=(
            "A defect of both repositories: of a population image, which no reference saw, only the largest half "
            "of the reference probabilities is averaged, as if the others were references that saw it. memorisk "
            "averages them all, as the paper does (Zarifzadeh and others 2024). The ranking of the "
            "images is the same but for ties; the score itself is moved, and a threshold on it with it."
        ),
        explained="largest_half",
    ),
    Case(
        peer="rmia-authors",
        case="lira_online",
        ours="lira_online",
        inputs="membership",
        title="LiRA online (PrivacyGuard)",
        kind="scores",
        note=("Another definition: deviations as pandas gives them (n - 1); memorisk as the authors' code (n)."),
        explained="unbiased",
    ),
    Case(
        peer="privacy-meter",
        case="attack_p",
        ours="loss_threshold",
        inputs="membership",
        title="Attack P: the loss against a population",
        kind="attack",
        note=(
            "Scores are the same; their AUC is of 100 thresholds from the population's quantiles, memorisk's of all."
        ),
    ),
    Case(
        peer="captum",
        case="self_influence",
        ours="influence",
        inputs="influence",
        title="TracInCP self-influence, one image a batch (as it comes)",
        kind="positive",
    ),
    Case(
        peer="captum",
        case="sample_wise",
        ours="influence",
        inputs="influence",
        title="TracInCP self-influence, its sample-wise mode",
        kind="positive",
    ),
    Case(
        peer="dattri",
        case="self_influence",
        ours="influence",
        inputs="influence",
        title="TracInCP self-influence, not projected",
        kind="positive",
    ),
    Case(
        peer="dattri",
        case="as_it_comes",
        ours="influence",
        inputs="influence",
        title="TracInCP self-influence, as it comes",
        kind="positive",
        note=(
            "A defect: `projector_kwargs=None` means no projection by its documentation, yet gradients are "
            "projected to 512 random numbers; the values are estimates. memorisk is exact."
        ),
    ),
    Case(
        peer="faiss",
        case="squared_euclidean",
        ours="squared_euclidean",
        inputs="neighbours",
        title="Ten nearest, squared Euclidean",
        kind="neighbours",
        note=(
            "Distances by float32 products lose small ones; memorisk evaluates the nearest in float64 by definition."
        ),
    ),
    Case(
        peer="faiss",
        case="cosine",
        ours="cosine",
        inputs="neighbours",
        title="Ten nearest, cosine (inner product of rows of length 1)",
        kind="neighbours",
        note="As above.",
    ),
    Case(
        peer="torch-fidelity",
        case="fid",
        ours="fid",
        inputs="quality",
        title="FID",
        kind="values",
        note=("memorisk's time includes what its interval needs; singular values, not eigenvalues of a product."),
    ),
    Case(
        peer="torch-fidelity",
        case="kid",
        ours="kid",
        inputs="quality",
        title="KID, mean and deviation over subsets",
        kind="values",
    ),
    Case(
        peer="torch-fidelity",
        case="precision_recall",
        ours="precision_recall",
        inputs="quality",
        title="Precision and recall, k = 3",
        kind="values",
    ),
    Case(
        peer="dgm-eval",
        case="authpct",
        ours="authenticity",
        inputs="memorization",
        title="AuthPct of three sets",
        kind="values",
    ),
    Case(
        peer="dgm-eval",
        case="c_t",
        ours="c_t",
        inputs="memorization",
        title="C_T of three sets, three cells",
        kind="values",
        note=(
            "Another definition: a continuity correction of half a rank; memorisk has the paper's formula (Meehan "
            "and others 2020, section 3)."
        ),
        explained="continuous",
    ),
    Case(
        peer="dgm-eval",
        case="fls_overfit",
        ours="ahead",
        inputs="memorization",
        title="FLS overfitting percentage; memorisk: p of training images ahead of all held-out ones",
        kind="beside",
        note=("Not the same figure: memorisk has no counterpart of FLS, and its own test of the set stands beside it."),
    ),
    Case(
        peer="imagededup",
        case="phash",
        ours="near_pairs",
        inputs="copies",
        title="PHash, to 10 bits; memorisk: details from 0.95",
        kind="pairs",
    ),
    Case(
        peer="imagededup",
        case="dhash",
        ours="near_pairs",
        inputs="copies",
        title="DHash, to 10 bits; memorisk: details from 0.95",
        kind="pairs",
    ),
    Case(
        peer="imagededup",
        case="ahash",
        ours="near_pairs",
        inputs="copies",
        title="AHash, to 10 bits; memorisk: details from 0.95",
        kind="pairs",
    ),
    Case(
        peer="imagededup",
        case="whash",
        ours="near_pairs_turned",
        inputs="copies",
        title="WHash, to 10 bits; memorisk: details from 0.95, turned and flipped as well",
        kind="pairs",
    ),
    Case(
        peer="imagededup",
        case="cnn",
        ours="features",
        inputs="copies",
        title="CNN, cosine from 0.9: SqueezeNet on both sides",
        kind="pairs",
    ),
)
"""In the order of the page."""
