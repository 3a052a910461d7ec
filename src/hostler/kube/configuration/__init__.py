"""Configuration of the scheduler: a ``Scheduler`` file or a KubeSchedulerConfiguration; as ``SchedulerSettings``."""

from hostler.kube.configuration.scheduler_file import SchedulerFile
from hostler.kube.configuration.sources import default_settings, is_scheduler_file, read_document, read_settings

__all__ = ["SchedulerFile", "default_settings", "is_scheduler_file", "read_document", "read_settings"]
