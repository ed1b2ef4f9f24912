"""How a diffusion model draws: settings for Python, the command line and YAML at once. Loads nothing heavy."""

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.settings import check_types

SAMPLERS = ("ddim", "dpm-solver", "ddpm")
OF_DIFFUSION = ("sampler", "sampling_steps", "guidance")
"""Settings that only a diffusion model has."""


@dataclass(frozen=True, kw_only=True)
class SamplingOptions:
    """How a diffusion model draws; a GAN and a user's own function take none of it but ``batch``."""

    sampler: Literal["ddim", "dpm-solver", "ddpm"] = "ddim"
    """How a diffusion model draws an image: ddim (without noise on the way), dpm-solver (++, second order) or ddpm."""

    sampling_steps: int = 50
    """Steps to an image of a diffusion model; dpm-solver needs fewer, ddpm as many as the training had times."""

    guidance: float = 1.0
    """Classifier-free guidance of a diffusion model: 1 is none; more keeps closer to the condition."""

    batch: int = 64
    """Images that are drawn at a time on a GPU; they do not depend on it on a CPU."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        check_types(self)
        if self.sampler not in SAMPLERS:
            raise unknown_name("sampler", self.sampler, SAMPLERS)
        for name in ("sampling_steps", "batch"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it must be a whole number of at least 1")
        if not 0 <= self.guidance < float("inf"):
            raise InputError(f"guidance is {self.guidance}; it must be 0 or more, and 1 is none")

    def sampling(self) -> "SamplingOptions":
        """These settings without those of a command that inherits them."""
        return SamplingOptions(**{f.name: getattr(self, f.name) for f in fields(SamplingOptions)})

    def of_kind(self, kind: str) -> "SamplingOptions":
        """What a generator of a kind takes of these settings, the others as they are by default.

        For commands whose settings are for generators of several kinds.

        Args:
            kind: ``dit``, ``gan`` or ``function``.
        """
        return self.sampling() if kind == "dit" else SamplingOptions(batch=self.batch)

    def told(self, kind: str) -> dict[str, Any]:
        """The settings by name, without those that take no part in how a generator of a kind draws.

        Args:
            kind: ``dit``, ``gan`` or ``function``.
        """
        unknown = () if kind == "dit" else OF_DIFFUSION
        return {name: value for name, value in asdict(self).items() if name not in unknown}

    def refuse_diffusion(self, name: str) -> None:
        """Refuse, for a generator that is no diffusion model, what only such a model has.

        Args:
            name: Of the generator.

        Raises:
            InputError: A setting of `OF_DIFFUSION` is not as it is by default.
        """
        for setting in OF_DIFFUSION:
            if (value := getattr(self, setting)) != getattr(SamplingOptions, setting):
                raise InputError(
                    f"{setting} is {value}, and {one_line(name, 60)} is no diffusion model of memorisk's, which alone "
                    f"has it: leave {setting} out"
                )
