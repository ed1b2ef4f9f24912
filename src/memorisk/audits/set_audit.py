"""Common work of the audits of generated sets."""

from contextlib import AbstractContextManager, nullcontext

from memorisk.audits.runner import Audit, EvidenceT, InputsT, OutcomeT
from memorisk.runs.environment import check_device
from memorisk.runs.workload import Progress
from memorisk.training.features.compute_backend import LOCAL, ComputeBackend, open_compute_backend


class SetAudit(Audit[InputsT, EvidenceT, OutcomeT]):
    """Audit that computes features and searches among them, here or on a cluster."""

    def workplace(self, progress: Progress) -> AbstractContextManager[ComputeBackend]:
        """Open this machine, or the cluster that the settings name; a dry run needs neither."""
        if self.dry_run:
            return nullcontext(LOCAL)
        options, device = self.options, str(check_device(self.options.device))
        return open_compute_backend(options, options.store, self.out, device=device)
