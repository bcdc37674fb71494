"""The runner for reproduce.toml: regenerates stale results, models and reports, and nothing else."""
