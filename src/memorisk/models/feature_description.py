"""Description of a feature matrix for a report; the module loads no network."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class FeatureDescription:
    """Description of features for a report.

    Attributes:
        source: Name of the source as the user typed it, without folders.
        encoder: Name of the encoder that computed them.
        weights: Name of the weights, in words; empty where there are none.
        weights_fingerprint: Fingerprint of the file of weights, or of the tensors; for saved features, of their file.
        state: State of the weights: "pretrained", "trained", "random", "fitted", "no network" or "saved".
        preprocessing: Preparation of an image, in words.
        precision: Numeric precision of the computation; the features are float32.
        dimension: Number of columns d.
        n: Number of images.
        n_distinct: Number of images with different pixels among those computed; None where pixels were not compared.
        notes: Sentences for the report; the note that weights are random comes first.
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
        """Return one sentence that summarises all of it."""
        network = f"{self.encoder}, {self.weights}" if self.weights else self.encoder
        how = "; ".join(part for part in (self.preprocessing, self.precision) if part)
        return f"{self.dimension:,} features an image by {network} ({self.state}; {how})."
