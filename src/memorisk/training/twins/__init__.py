"""Twin models: who is in whose half. Start with `twins`; `canaries` and `mark_variants` mark images (paper 002)."""
