"""What is handed on with a release: a privacy statement, a model card, a gate, and figures in a tracker."""
