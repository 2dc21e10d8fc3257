"""One rewrite per file; see `graphaudit.rewrite.base` for the contract."""
