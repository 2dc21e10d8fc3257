"""One file per finding; see `graphaudit.audit.check` for what it holds."""
