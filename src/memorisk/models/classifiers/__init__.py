"""Image classifiers: `zoo` builds one by name, `specs` says how a name is read."""
