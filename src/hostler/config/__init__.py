"""Files, environment and folders: everything that a user writes for Hostler, to the model and back.

Fronts and commands read through here; nothing in it knows the engine. Files come from strangers, so
every error names file and line and says what to do.
"""

from hostler.config.documents import Document, kind_of, parse_documents, read_documents
from hostler.config.durations import format_duration, parse_duration
from hostler.config.entries import API_VERSION, check_kind, means
from hostler.config.fleet import Fleet, fleet_of, merge, read_fleet
from hostler.config.fleet_entries import read_guests
from hostler.config.fleet_file import FleetFile, GuestEntry
from hostler.config.fleet_writing import write_fleet, write_yaml
from hostler.config.folders import (
    KernelCache,
    cache_folder,
    config_folder,
    data_folder,
    prepare_kernel_cache,
    state_folder,
)
from hostler.config.policies import write_policy
from hostler.config.settings import (
    CONFIG_VARIABLE,
    DEFAULT_POLICY,
    POLICY_VARIABLE,
    Setting,
    Settings,
    json_schema,
    load_settings,
    prefer_fleet_policy,
    read_settings,
)
from hostler.config.strict import convert, invalid, located
from hostler.config.tenancy import Tenancy, tenancy_facts
from hostler.config.wording import describe, did_you_mean, quote

__all__ = [
    "API_VERSION",
    "CONFIG_VARIABLE",
    "DEFAULT_POLICY",
    "POLICY_VARIABLE",
    "Document",
    "Fleet",
    "FleetFile",
    "GuestEntry",
    "KernelCache",
    "Setting",
    "Settings",
    "Tenancy",
    "cache_folder",
    "check_kind",
    "config_folder",
    "convert",
    "data_folder",
    "describe",
    "did_you_mean",
    "fleet_of",
    "format_duration",
    "invalid",
    "json_schema",
    "kind_of",
    "load_settings",
    "located",
    "means",
    "merge",
    "parse_documents",
    "parse_duration",
    "prefer_fleet_policy",
    "prepare_kernel_cache",
    "quote",
    "read_documents",
    "read_fleet",
    "read_guests",
    "read_settings",
    "state_folder",
    "tenancy_facts",
    "write_fleet",
    "write_policy",
    "write_yaml",
]
