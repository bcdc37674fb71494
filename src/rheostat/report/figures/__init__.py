"""The pictures of a report (matplotlib)."""
