"""Inputs, references, comparison, verdicts, certificate."""
