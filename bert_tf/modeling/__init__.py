"""(docstring to come)."""
