"""Words and numbers of a verdict that depend on what was audited: names of a group, and the scale of losses."""

from dataclasses import dataclass

from memorisk.statistics.verdicts.scales import CROSS_ENTROPY, LossScale, find_scale


@dataclass(frozen=True)
class UnitNames:
    """Names of a group in sentences (patients, images, or another independent unit), and the scale of losses."""

    one: str = "group"
    many: str = "groups"
    scale: str = CROSS_ENTROPY.name
    """Name of the scale of losses."""

    @property
    def whom(self) -> str:
        """Pronoun of several: "whom" for people, "which" for images and groups."""
        return "whom" if self.many == "patients" else "which"

    @property
    def loss_scale(self) -> LossScale:
        """Return the scale of losses."""
        return find_scale(self.scale)

    @property
    def loss_unit(self) -> str:
        """Return the unit of a gap as it follows a number."""
        return self.loss_scale.unit

    @property
    def change(self) -> str:
        """Return what training on an image changes."""
        return self.loss_scale.change

    @property
    def verb(self) -> str:
        """Return the verb for what the models do with an image."""
        return self.loss_scale.verb

    def count(self, n: int) -> str:
        """Return a number with its noun: ``1 group``, ``3 groups``."""
        return f"{n} {self.one if n == 1 else self.many}"


GROUP_NAMES = UnitNames()
