"""Figures of the reports, drawn by matplotlib: a kind a module. Start with `drawing`, which all share."""
