"""The graphs a policy goes through, and one read-only view of them with source places."""
