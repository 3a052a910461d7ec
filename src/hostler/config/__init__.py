"""Files, environment and folders: everything that a user writes for Hostler, to the model and back.

Fronts and commands read through here; nothing in it knows the engine. Files come from strangers, so
every error names file and line and says what to do.
"""

from hostler.config.documents import FILE_ENDINGS, Document, kind_of, parse_documents, read_documents, with_folder_files
from hostler.config.entries import API_VERSION, check_kind, means
from hostler.config.fleet.entries import read_guests
from hostler.config.fleet.file import FleetFile, GuestEntry
from hostler.config.fleet.input import DeclaredFleet, fleet_of, merge_fleets, read_fleet
from hostler.config.fleet.likely_mistakes import likely_mistakes
from hostler.config.fleet.output import write_fleet, write_yaml
from hostler.config.folders import (
    KernelCache,
    cache_folder,
    config_folder,
    data_folder,
    prepare_kernel_cache,
    state_folder,
)
from hostler.config.key_paths import describe_path, did_you_mean, quote
from hostler.config.policies import write_policy
from hostler.config.settings import (
    CONFIG_VARIABLE,
    DEFAULT_POLICY,
    POLICY_VARIABLE,
    Setting,
    Settings,
    choose_policy,
    json_schema,
    load_settings,
    prefer_fleet_policy,
    read_configuration,
    read_settings,
)
from hostler.config.strict import convert, invalid, with_location
from hostler.config.tenancy import DeclaredTenancy
from hostler.config.times import format_duration, parse_duration

__all__ = [
    "API_VERSION",
    "CONFIG_VARIABLE",
    "DEFAULT_POLICY",
    "FILE_ENDINGS",
    "POLICY_VARIABLE",
    "DeclaredFleet",
    "DeclaredTenancy",
    "Document",
    "FleetFile",
    "GuestEntry",
    "KernelCache",
    "Setting",
    "Settings",
    "cache_folder",
    "check_kind",
    "choose_policy",
    "config_folder",
    "convert",
    "data_folder",
    "describe_path",
    "did_you_mean",
    "fleet_of",
    "format_duration",
    "invalid",
    "json_schema",
    "kind_of",
    "likely_mistakes",
    "load_settings",
    "means",
    "merge_fleets",
    "parse_documents",
    "parse_duration",
    "prefer_fleet_policy",
    "prepare_kernel_cache",
    "quote",
    "read_configuration",
    "read_documents",
    "read_fleet",
    "read_guests",
    "read_settings",
    "state_folder",
    "with_folder_files",
    "with_location",
    "write_fleet",
    "write_policy",
    "write_yaml",
]  # fmt: skip
