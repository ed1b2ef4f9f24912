"""Names of a group in sentences: patients, images, or what else is the independent unit."""

from dataclasses import dataclass


@dataclass(frozen=True)
class UnitNames:
    """Names of a group in sentences."""

    one: str = "group"
    many: str = "groups"

    @property
    def whom(self) -> str:
        """Pronoun of several: "whom" for people, "which" for images and groups."""
        return "whom" if self.many == "patients" else "which"

    def count(self, n: int) -> str:
        """Return a number with its noun: ``1 group``, ``3 groups``."""
        return f"{n} {self.one if n == 1 else self.many}"


GROUP_NAMES = UnitNames()
