"""Run folders, fingerprints, atomic files, locks, executors: how a run is kept; knows nothing of images."""
