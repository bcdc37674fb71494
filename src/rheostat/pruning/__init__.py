"""Which filters matter, and how to recover what cutting loses. All but `reconstruction` needs torch."""
