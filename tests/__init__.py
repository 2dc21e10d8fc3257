"""The tests mirror the engine's folders; each test package is importable from the repository's root."""
