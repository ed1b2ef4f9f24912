"""What the terminal shows of results and plans: a module a verb. Start with `common`, which all others use."""
