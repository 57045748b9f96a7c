"""Where a bench ran: figures without this mean nothing."""

from __future__ import annotations

import os
import platform
import resource
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

_PACKAGES = ("relay-integrations", "torch", "transformers", "vllm", "tokenizers", "httpx", "langchain-core")


def describe_machine() -> dict[str, Any]:
    """Processor, cores, memory, GPUs and how busy the machine was just before."""
    load = os.getloadavg()[0]
    return {
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "gpus": _gpu_names(),
        "os": f"{platform.system()} {platform.release()}",
        "load": round(load, 2),
    }


def describe_versions() -> dict[str, str]:
    """Versions of Python and of the packages that matter, as far as they are installed. Imports none of them."""
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def max_rss_mb() -> float:
    """The most memory that this process has held so far, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _gpu_names() -> list[str]:
    """The GPUs, if torch is loaded anyway."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
