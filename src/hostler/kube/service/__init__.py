"""The pages of a running scheduler: probes, metrics, explanations, what-ifs; everything but probes behind reviews."""
