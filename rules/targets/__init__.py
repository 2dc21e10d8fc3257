"""One data file per target; `graphaudit.rulebook` loads and validates them."""
