"""The bundled model with its card, its held-out text and the hidden words; found through `rheostat.bundled`."""
