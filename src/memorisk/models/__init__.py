"""Networks: one zoo by name, classic small nets, strict loading of weights."""
