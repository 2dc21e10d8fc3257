"""A pass and a finding that graphaudit finds through entry points."""
