"""Tests of the study of generators."""
