"""The kinds of detectors, by the names that a user types. Loads nothing."""

COPY = "copy"
LATENT_KINDS = ("lcmem", "siamese", "siamese-ntxent")
KINDS = (COPY, *LATENT_KINDS)
