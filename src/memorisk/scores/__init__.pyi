"""Public names of `memorisk.scores`, written by `recipes/signatures.py`."""

from memorisk.scores.atypicality import centroid_atypicality as centroid_atypicality
from memorisk.scores.atypicality import pairwise_atypicality as pairwise_atypicality
from memorisk.scores.lira import lira_scores as lira_scores
from memorisk.scores.lira import twin_references as twin_references
from memorisk.scores.marks import kl_divergence as kl_divergence
from memorisk.scores.marks import mean_log_kl as mean_log_kl
from memorisk.scores.marks import paper_score as paper_score
from memorisk.scores.marks import white_box_score as white_box_score
from memorisk.scores.memorization import binary_cross_entropy as binary_cross_entropy
from memorisk.scores.memorization import cross_entropy as cross_entropy
from memorisk.scores.memorization import feldman_zhang as feldman_zhang
from memorisk.scores.memorization import group_table as group_table
from memorisk.scores.memorization import logit_margin as logit_margin
from memorisk.scores.rmia import rmia_scores as rmia_scores
from memorisk.scores.rmia import split_population as split_population
from memorisk.scores.twin_attacks import attack_scores as attack_scores
from memorisk.scores.twin_attacks import attack_spec as attack_spec

MODULES: dict[str, str]
