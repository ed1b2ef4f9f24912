"""Public names of `memorisk.statistics`, written by `recipes/signatures.py`."""

from memorisk.statistics.effect_sizes import cohens_d as cohens_d
from memorisk.statistics.effect_sizes import paired_dz as paired_dz
from memorisk.statistics.exchangeability.image_numbers import image_counts as image_counts
from memorisk.statistics.exchangeability.neighbours import neighbour_test as neighbour_test
from memorisk.statistics.intervals.means import difference_interval as difference_interval
from memorisk.statistics.intervals.means import paired_share_difference as paired_share_difference
from memorisk.statistics.intervals.means import these_groups_interval as these_groups_interval
from memorisk.statistics.intervals.means import two_way_interval as two_way_interval
from memorisk.statistics.intervals.shares import clopper_pearson as clopper_pearson
from memorisk.statistics.multiple_testing.lists import benjamini_hochberg as benjamini_hochberg
from memorisk.statistics.multiple_testing.lists import benjamini_yekutieli as benjamini_yekutieli
from memorisk.statistics.multiple_testing.lists import holm as holm
from memorisk.statistics.privacy.accounting import noise_for_epsilon as noise_for_epsilon
from memorisk.statistics.privacy.accounting import rdp_epsilon as rdp_epsilon
from memorisk.statistics.privacy.measured_epsilon import epsilon_bound as epsilon_bound
from memorisk.statistics.privacy.patient_epsilon import group_epsilon as group_epsilon
from memorisk.statistics.privacy.patient_epsilon import replace_one_epsilon as replace_one_epsilon
from memorisk.statistics.rank_correlation import spearman as spearman
from memorisk.statistics.rank_tests import mann_whitney as mann_whitney
from memorisk.statistics.rank_tests import sign_test as sign_test
from memorisk.statistics.roc import auc as auc
from memorisk.statistics.roc import auc_jackknife as auc_jackknife
from memorisk.statistics.roc import roc_curve as roc_curve
from memorisk.statistics.roc import tpr_at_fpr as tpr_at_fpr

MODULES: dict[str, str]
