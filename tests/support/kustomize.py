"""What kustomize does, for exactly the features that our manifests use; anything else is an error.

tests/deploy/test_kustomize.py holds it against what the real one built.
"""

import hashlib
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]
Identity = tuple[str, str]
"""Kind and name, as they are written in the files."""

_KNOWN = {
    "apiVersion", "kind", "resources", "components", "labels", "configMapGenerator", "patches", "images",
}  # fmt: skip
_LISTS_BY_NAME = {"containers", "volumes"}
"""Lists whose items a strategic merge matches by name; of these manifests' lists all others are replaced."""
_HASH_LETTERS = str.maketrans("013ae", "ghkmt")


class Kustomized:
    """The resources of a folder with a kustomization.yaml, ready to be applied."""

    def __init__(self, folder: Path) -> None:
        self._found: dict[Identity, Manifest] = {}
        self._generated: dict[str, dict[str, str]] = {}
        self._add(folder)
        for name, data in self._generated.items():
            self._name_with_hash(name, data)

    @property
    def manifests(self) -> list[Manifest]:
        return list(self._found.values())

    def _add(self, folder: Path) -> None:
        own = yaml.safe_load((folder / "kustomization.yaml").read_text("utf-8"))
        assert set(own) <= _KNOWN, f"{folder}: {set(own) - _KNOWN} are not known here"
        for entry in own.get("resources", []):
            path = (folder / entry).resolve()
            if path.is_dir():
                self._add(path)
            else:
                self._read(path)
        for generator in own.get("configMapGenerator", []):
            self._generate(folder, generator)
        for entry in own.get("components", []):
            self._add((folder / entry).resolve())
        for patch in own.get("patches", []):
            assert set(patch) == {"path"}
            self._patch(folder / patch["path"])
        for image in own.get("images", []):
            self._set_image(image)
        for labels in own.get("labels", []):
            assert set(labels) == {"pairs"}
            for manifest in self._found.values():
                manifest["metadata"].setdefault("labels", {}).update(labels["pairs"])

    def _read(self, path: Path) -> None:
        for manifest in yaml.safe_load_all(path.read_text("utf-8")):
            identity = identity_of(manifest)
            assert identity not in self._found, f"{path}: {identity} is there already"
            self._found[identity] = manifest

    def _patch(self, path: Path) -> None:
        for change in yaml.safe_load_all(path.read_text("utf-8")):
            target = identity_of(change)
            self._found[target] = merged(self._found[target], change)

    def _generate(self, folder: Path, generator: dict[str, Any]) -> None:
        assert set(generator) <= {"name", "behavior", "files"}
        data = {name: (folder / name).read_text("utf-8") for name in generator["files"]}
        name = generator["name"]
        assert (name in self._generated) == (generator.get("behavior") == "merge"), f"{folder}: {name}"
        self._generated.setdefault(name, {}).update(data)
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        known = self._found.setdefault(("ConfigMap", name), manifest)
        known["data"] = self._generated[name]

    def _set_image(self, image: dict[str, str]) -> None:
        assert set(image) <= {"name", "newName", "newTag"}
        for manifest in self._found.values():
            for container in containers_of(manifest):
                name, _, tag = container["image"].partition(":")
                if name == image["name"]:
                    container["image"] = f"{image.get('newName', name)}:{image.get('newTag', tag)}"

    def _name_with_hash(self, name: str, data: dict[str, str]) -> None:
        full = f"{name}-{_hash_of(data)}"
        self._found["ConfigMap", name]["metadata"]["name"] = full
        for manifest in self._found.values():
            for volume in pod_of(manifest).get("volumes", []):
                if volume.get("configMap", {}).get("name") == name:
                    volume["configMap"]["name"] = full


def identity_of(manifest: Manifest) -> Identity:
    return manifest["kind"], manifest["metadata"]["name"]


def pod_of(manifest: Manifest) -> Manifest:
    """The pod's specification, empty where there is none."""
    pod: Manifest = manifest.get("spec", {}).get("template", {}).get("spec", {})
    return pod


def containers_of(manifest: Manifest) -> list[Manifest]:
    containers: list[Manifest] = pod_of(manifest).get("containers", [])
    return containers


def merged(base: Any, change: Any, key: str = "") -> Any:
    """A strategic merge: maps by key, lists of named things by name (new first); null takes away, else replaced."""
    if isinstance(base, dict) and isinstance(change, dict):
        result = deepcopy(base)
        for name, value in change.items():
            if value is None:
                result.pop(name, None)
            else:
                result[name] = merged(result.get(name), value, name)
        return result
    if isinstance(base, list) and isinstance(change, list) and key in _LISTS_BY_NAME:
        changes = {item["name"]: item for item in change}
        known = [merged(item, changes.pop(item["name"], {})) for item in base]
        return list(changes.values()) + known
    return deepcopy(change)


def _hash_of(data: dict[str, str]) -> str:
    """The suffix that gives a changed configuration a new name, so that what mounts it is started anew."""
    content = {"data": data, "kind": "ConfigMap", "name": ""}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return hashlib.sha256(text.encode()).hexdigest()[:10].translate(_HASH_LETTERS)
