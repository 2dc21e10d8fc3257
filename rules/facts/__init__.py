"""The facts that target files are built from; README.md says where they come from."""
