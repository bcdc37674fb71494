"""Measuring quality, time, memory and energy at every operating point, and the results files."""
