"""Where the book is published, and what it offers there."""

import tomllib
from pathlib import Path

import yaml


def site_address(root: Path) -> str:
    """Where ``_config.yml`` puts the book: ``html: baseurl``, or GitHub's pages of ``repository: url``; empty while both are."""
    config = yaml.safe_load((root / "_config.yml").read_text("utf-8"))
    return config["html"].get("baseurl") or _github_pages(config.get("repository", {}).get("url") or "")


def _github_pages(url: str) -> str:
    """Where GitHub shows the branch ``gh-pages`` of https://github.com/OWNER/NAME."""
    if not url:
        return ""
    owner, name = url.rstrip("/").split("/")[-2:]
    return f"https://{owner}.github.io/{name}"


def version(root: Path) -> str:
    """That of gpulab and of its marker."""
    return tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"]


def wheel(package: str, version: str) -> str:
    """The name of the file that pip makes of ``gpulab`` or ``gpulab_mark``."""
    return f"{package}-{version}-py3-none-any.whl"
