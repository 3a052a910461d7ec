"""Reports: results of simulations as one HTML file that needs nothing else, with tables and drawn charts."""

from hostler.sim.report.page import report
from hostler.sim.report.reading import read_results

__all__ = ["read_results", "report"]
