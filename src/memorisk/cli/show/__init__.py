"""Terminal output of results and plans, one module per family; `common` is what they share."""
