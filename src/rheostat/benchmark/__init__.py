"""Measuring and reporting: what an operating point costs."""
