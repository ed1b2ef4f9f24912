"""Privacy statements: what they say (`statement`), their schema, signatures over them (`envelope`, `signatures`)."""
