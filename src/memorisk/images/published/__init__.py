"""Published data sets by name, a module each; `layout` is what they share."""
