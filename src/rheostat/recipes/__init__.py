"""Recipes that come with the package, as TOML; read by `rheostat.recipe`."""
