"""What a model is, in NumPy alone: its shape, its operating points, and the file that holds all of it."""
