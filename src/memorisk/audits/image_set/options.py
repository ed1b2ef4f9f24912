"""Settings of ``memorisk images check``: how images are read and compared, and the content of its page."""

from dataclasses import dataclass

from memorisk.images.options import ImageOptions
from memorisk.report.options import ReportOptions
from memorisk.runs.errors import InputError
from memorisk.runs.options import grouped


@grouped("comparison", essential="near turned gallery", report="gallery")
@dataclass(frozen=True, kw_only=True)
class CheckOptions(ImageOptions, ReportOptions):
    """Options of the check of a set of images."""

    VOLUMES = True

    near: float | None = None
    """Correlation of thumbnails, up to 1, from which on two images are near copies; by default learned from the set so
    that chance explains fewer than 0.01 pairs."""
    turned: bool = False
    """Find mirrored copies and copies turned by quarters, too."""

    gallery: bool = True
    """Show images side by side in the page; --no-gallery leaves them out."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        ImageOptions.validate(self)
        if self.near is not None and not 0 < self.near <= 1:
            raise InputError(f"near is {self.near:g}; it must be a correlation above 0 and up to 1, as 0.95")
