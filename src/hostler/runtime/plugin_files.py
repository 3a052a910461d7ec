"""Plugins and policies from files outside the package: ``--plugin path/to/file.py``.

A file is imported under its own name. Every class in it that is a filter or a scorer (it has a ``name`` and an
``evaluate``) becomes a plugin of that name; every ``Policy`` becomes a policy. A scorer that no policy of the file uses
gets a policy of its name, in which it decides alone.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from hostler.engine.framework import Factory
from hostler.errors import DuplicateNameError, PluginError
from hostler.model import Policy, ScorerUse

__all__ = ["OwnPlugins", "load_plugin_files"]


class OwnPlugins(NamedTuple):
    """The plugins and policies of plugin files."""

    factories: dict[str, Factory]
    policies: dict[str, Policy]


def load_plugin_files(files: Iterable[Path]) -> OwnPlugins:
    """Import files and return what they offer."""
    own = OwnPlugins({}, {})
    for file in files:
        module = _imported(file)
        found = [value for value in vars(module).values() if _is_plugin(value, module)]
        policies = [value for value in vars(module).values() if isinstance(value, Policy)]
        if not found and not policies:
            raise PluginError(f"{file} has no plugin and no policy", hint="see docs/guides/own-policy.md")
        used = {scorer.name for policy in policies for scorer in policy.scorers}
        for plugin in found:
            name = str(plugin.name)
            if name in own.factories:
                raise DuplicateNameError(f"{_place_of(plugin, file)}: plugin {name!r} is there twice")
            own.factories[name] = plugin
            if hasattr(plugin, "normalizer") and name not in used:
                policies.append(Policy(name=name, scorers=(ScorerUse(name),)))
        own.policies.update({policy.name: policy for policy in policies})
    return own


def _imported(file: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location(f"hostler_plugin_{file.stem}", file)
    if not file.exists():
        raise PluginError(f"{file}: there is no such file", hint="check the path")
    if not file.is_file() or specification is None or specification.loader is None:
        raise PluginError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(specification)
    try:
        specification.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise _not_importable(file, error) from error
    return module


def _not_importable(file: Path, error: BaseException) -> PluginError:
    """Return the error for a file that does not run, with the line in it where it stopped."""
    path, line, problem = str(file.absolute()), None, str(error)
    if isinstance(error, SyntaxError) and error.filename == path:
        line, problem = error.lineno, error.msg
    else:
        frames = error.__traceback__
        while frames is not None:
            if frames.tb_frame.f_code.co_filename == path:
                line = frames.tb_lineno
            frames = frames.tb_next
    where = file if line is None else f"{file}:{line}"
    return PluginError(f"{where}: cannot be imported: {type(error).__name__}: {problem}", hint="correct the file")


def _place_of(plugin: type, file: Path) -> str:
    """Return file and line of a plugin, as near as Python knows: its first method."""
    codes = (getattr(value, "__code__", None) for value in vars(plugin).values())
    lines = [code.co_firstlineno for code in codes if code is not None]
    return f"{file}:{min(lines)}" if lines else str(file)


def _is_plugin(value: object, module: ModuleType) -> bool:
    return (
        isinstance(value, type)
        and value.__module__ == module.__name__
        and hasattr(value, "name")
        and hasattr(value, "evaluate")
    )
