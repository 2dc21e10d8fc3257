"""Findings and certificates → terminal, JSON."""
