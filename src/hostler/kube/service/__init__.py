"""The HTTP service of a running scheduler: probes, metrics, explanations, plans. All but probes need authorization."""
