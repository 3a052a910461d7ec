"""Reports: results of simulations as one HTML file that needs nothing else, with tables and drawn charts."""

from hostler.sim.report.page import report_page
from hostler.sim.report.runs import read_results

__all__ = ["read_results", "report_page"]
