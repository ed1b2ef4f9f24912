"""What the terminal shows of results and plans, a module a family; `common` is what they share."""
