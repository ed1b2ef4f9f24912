"""What the terminal shows of results and plans. Start with `common`, which most others use."""
