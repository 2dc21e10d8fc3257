"""The rules: one data file per target in `targets/`, one file per finding in `checks/`."""
