"""A number about many: nulls and p-values, intervals, tiers, ROC, checks. Arrays in, frozen dataclasses out."""
