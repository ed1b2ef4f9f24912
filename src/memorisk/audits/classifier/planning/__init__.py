"""Planning of an audit before anything is trained: its parts, cost, dry run and rehearsal on made losses."""
