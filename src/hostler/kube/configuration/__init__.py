"""Configuration of the scheduler: our own file, or a KubeSchedulerConfiguration; both become ``SchedulerSettings``."""

from hostler.engine.mixes import with_mixes
from hostler.kube.configuration.reading import default_settings, is_scheduler_file, read_document, read_settings
from hostler.kube.configuration.scheduler_file import SchedulerFile

__all__ = ["SchedulerFile", "default_settings", "is_scheduler_file", "read_document", "read_settings", "with_mixes"]
