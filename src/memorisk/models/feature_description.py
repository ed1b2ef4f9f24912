"""What a report says of a feature matrix; it loads no network."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class FeatureDescription:
    """Description of features for a report.

    Attributes:
        source: As it was typed, without folders.
        encoder: Who computed.
        weights: Which weights, in words; empty where there are none.
        weights_fingerprint: Of the file, or of the tensors; of saved features, of their file.
        state: "pretrained", "trained", "random", "fitted", "no network" or "saved".
        preprocessing: What an image went through, in words.
        precision: Of the computation; the features are float32.
        dimension: d.
        n: Images.
        n_distinct: Images with different pixels among those computed; None where pixels were not looked at.
        notes: Sentences for the report; that weights are random comes first.
    """

    source: str
    encoder: str
    weights: str
    weights_fingerprint: str
    state: str
    preprocessing: str
    precision: str
    dimension: int
    n: int
    n_distinct: int | None
    notes: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """One sentence that stands for all of it."""
        network = f"{self.encoder}, {self.weights}" if self.weights else self.encoder
        how = "; ".join(part for part in (self.preprocessing, self.precision) if part)
        return f"{self.dimension:,} features an image by {network} ({self.state}; {how})."
