"""The runner of reproduce.toml: makes what is stale among results, models and reports, and nothing else."""
