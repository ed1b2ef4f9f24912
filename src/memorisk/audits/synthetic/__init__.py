"""Is anybody copied in a set of synthetic images? METHODS section 5; `audit.audit_synthetic` is the way in."""
