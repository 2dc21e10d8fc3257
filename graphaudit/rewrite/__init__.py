"""Passes, and the pipeline that checks each of them."""
