"""Graph + rulebook → findings."""
