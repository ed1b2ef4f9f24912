"""Features that the user brings, read by `memorisk.models.features_saved`."""

from memorisk.models.features_saved import is_feature_file, read_features

__all__ = ["is_feature_file", "read_features"]
