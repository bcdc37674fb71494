"""Reports from results files: tables, pictures and verdicts. Nothing is measured here."""
