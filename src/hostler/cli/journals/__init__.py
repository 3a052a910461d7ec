"""The commands on journals, recorded runs: replayed, shown, compared, redacted and recorded."""
