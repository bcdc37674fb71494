"""Measuring: quality, time, memory and energy of every operating point, and the files that hold the results."""
