"""The core: a small C library that runs a model at any position of the knob, and its Python binding.

`rheostat.h` is the whole interface for applications; `binding` is the same for Python. Knows ids and numbers; words as
people write them, texts and files belong to `words` and `runtime`.
"""
