"""`plica doctor`: versions, devices and extras of this installation, for whoever asks why something does not run."""

import json
import os
import platform
import re
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import click

from plica.cli.errors import one_line_errors
from plica.cli.version import plica_version
from plica.extras import how_to_install

_LIBRARIES = ("numpy", "torch", "pyarrow")
_REQUIREMENT = re.compile(r"([\w.-]+).*; extra == ['\"]([\w-]+)['\"]")
_UNLISTED = ("all", "dev")


@click.command(short_help="Print versions, devices and extras.")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
@one_line_errors
def doctor(as_json: bool) -> None:
    """Print the versions of Plica, Python and libraries, the devices, and which extras are installed.

    Put its output into a report of a problem.
    """
    found = examination()
    click.echo(json.dumps(found, indent=2) if as_json else report(found))


def examination() -> dict[str, Any]:
    """Versions, devices and extras, as JSON has them; a library that cannot be imported is described by its error."""
    versions = {"plica": plica_version(), "python": platform.python_version()}
    versions |= {name: _version_of(name) for name in _LIBRARIES}
    return {
        "versions": versions,
        "platform": platform.platform(),
        "folder": str(Path(__file__).parents[1]),
        "devices": _devices(),
        "extras": _extras(),
    }


def report(found: dict[str, Any]) -> str:
    """The same for people, on one screen."""
    lines = [f"{name:12}{version}" for name, version in found["versions"].items()]
    lines += [f"{'platform':12}{found['platform']}", f"{'folder':12}{found['folder']}", "", "devices"]
    lines += [f"  {name:10}{what}" for name, what in found["devices"].items()]
    lines += ["", "extras"]
    for name, extra in found["extras"].items():
        installed = ", ".join(f"{package} {version}" for package, version in extra["installed"].items())
        missing = f"{', '.join(extra['missing'])} missing; {extra['install']}" if extra["missing"] else ""
        lines.append(f"  {name:12}{'; '.join(filter(None, (installed, missing)))}")
    return "\n".join(lines)


def _version_of(module: str) -> str:
    """The version of a library as it is imported, which may fail although it is installed."""
    try:
        return str(import_module(module).__version__)
    except ModuleNotFoundError:
        return "not installed"
    except (ImportError, OSError) as error:  # its own libraries, for instance
        return f"cannot be imported: {' '.join(str(error).split())}"


def _devices() -> dict[str, str]:
    found = {"cpu": f"{platform.machine()}, {os.cpu_count()} cores"}
    try:
        torch = import_module("torch")
    except (ImportError, OSError):
        return found
    found["cpu"] += f", {torch.get_num_threads()} threads of torch"
    for number in range(torch.cuda.device_count()):
        device = torch.cuda.get_device_properties(number)
        found[f"cuda:{number}"] = f"{device.name}, {device.total_memory / 2**30:.1f} GiB"
    if torch.backends.mps.is_available():
        found["mps"] = "Apple GPU"
    return found


def _extras() -> dict[str, dict[str, Any]]:
    """What each extra brings, by the metadata of the installed package; nothing where there is none."""
    try:
        requirements = metadata.requires("plica") or []
    except metadata.PackageNotFoundError:
        return {}
    packages: dict[str, list[str]] = {}
    for requirement in map(_REQUIREMENT.match, requirements):
        if requirement is not None and requirement[2] not in _UNLISTED:
            packages.setdefault(requirement[2], []).append(requirement[1])
    return {extra: _state(extra, names) for extra, names in sorted(packages.items())}


def _state(extra: str, names: list[str]) -> dict[str, Any]:
    installed = {}
    for name in names:
        try:
            installed[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    missing = [name for name in names if name not in installed]
    return {"installed": installed, "missing": missing, "install": how_to_install(extra) if missing else ""}
