"""Build hook of every distribution in this repository: one version, and dependencies that resolve anywhere.

The version of all distributions is `__version__` in `spec/kernel_spec/version.py`. A dependency on a sibling is
written by its bare name in `pyproject.toml`, and becomes

* in a checkout, the sibling's folder (`kernel-spec @ file:///.../spec`), so that pip finds it on no index;
* in a release build (`KERNEL_BUILD_RELEASE=1`, what `tools/build_wheels.py` sets), an exact pin
  (`kernel-spec==2026.11.0`), because a released wheel must not know where it was built;
* in a linked build (`KERNEL_BUILD_LINKED=1`, what `tools/dev_install.py` sets), the bare name, because all
  siblings are installed by the same command and editable.

Hatchling runs this file inside an isolated build environment: it may use the standard library and hatchling only.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parent))

from workspace_projects import distributions, plugin_extras, resolved, version


class WorkspaceMetadata(MetadataHookInterface):
    """Fills in `version`, `dependencies` and `optional-dependencies` from the hook's own table."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the dynamic fields to `metadata`, in place."""
        siblings = distributions()
        metadata["version"] = version()
        metadata["dependencies"] = [resolved(item, siblings) for item in self.config.get("dependencies", [])]
        extras = {name: list(items) for name, items in self.config.get("optional-dependencies", {}).items()}
        if self.config.get("plugin-extras", False):
            extras = {**plugin_extras(siblings), **extras}
        if "optional-dependencies" in metadata.get("dynamic", []):
            metadata["optional-dependencies"] = {
                name: [resolved(item, siblings) for item in items] for name, items in extras.items()
            }
