"""Trains the shipped models from nothing: `python -m relay_integrations.tiny.train`.

Takes one to two hours on two cores, one for the large model and one for the small ones. Killed and started again, it goes on.
The weights end up in the folder `weights` under `--out`; the ones that ship are in the package's folder of that name.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from relay_integrations.tiny import LARGE
from relay_integrations.tiny.training.recipes import RECIPES

DEFAULT_FOLDER = Path("build") / "tiny"

STOPPED = "stopped; the same command goes on from the last checkpoint"


def main(arguments: list[str] | None = None) -> int:
    """Reads the command line and trains."""
    options = _read(arguments)
    if len(options.models) > 1 and not options.one_at_a_time:
        return _side_by_side(options)
    try:
        return _one_after_the_other(options)
    except KeyboardInterrupt:
        _say(STOPPED)
        return 130


def _one_after_the_other(options: argparse.Namespace) -> int:
    # On one thread each: with anything else on the machine, models this small are many times slower on two.
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    from relay_integrations.tiny.training.trainer import train

    torch.set_num_threads(1)
    folder: Path = options.out
    for recipe in RECIPES:
        if recipe.name not in options.models:
            continue
        run = folder / "runs" / recipe.name
        with _alone_in(run):
            trained = train(recipe, run, _say, steps=max(2, round(recipe.steps * options.scale)), compiled=not options.eager)
            target = folder / "weights" / recipe.name
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(trained, target)
        _say(f"{recipe.name}: done, in {target}")
    return 0


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Two trainings must not write one checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SystemExit(f"another process is training in {folder}; stop it, or train into another folder (--out)") from None
        yield


def _read(arguments: list[str] | None) -> argparse.Namespace:
    names = [recipe.name for recipe in RECIPES]
    parser = argparse.ArgumentParser(prog="python -m relay_integrations.tiny.train", description=__doc__)
    parser.add_argument("--out", type=Path, default=DEFAULT_FOLDER, help="folder for checkpoints, logs and weights (%(default)s)")
    parser.add_argument("--models", nargs="+", choices=names, default=names, metavar="NAME", help=f"which to train: {', '.join(names)}")
    parser.add_argument("--scale", type=float, default=1.0, help="another length of the training, as a share of the full one (%(default)s)")
    parser.add_argument("--one-at-a-time", action="store_true", help="one after the other in this process")
    parser.add_argument("--eager", action="store_true", help="without torch.compile: slower, but needs no C++ compiler")
    options = parser.parse_args(arguments)
    if not options.eager and not any(map(shutil.which, (os.environ.get("CXX", "g++"), "g++", "clang++"))):
        parser.error("torch.compile needs a C++ compiler and there is none (on Debian or Ubuntu: apt install g++); --eager does without")
    return options


def _side_by_side(options: argparse.Namespace) -> int:
    """The large model in one process, the small ones in another. If one fails, so does the other."""
    common = ["--out", str(options.out), "--scale", str(options.scale), "--one-at-a-time", *(["--eager"] if options.eager else [])]
    groups = [[name for name in options.models if (name == LARGE) == large] for large in (True, False)]
    command = [sys.executable, "-m", "relay_integrations.tiny.train", *common, "--models"]
    # Large tensors come and go each step; without this glibc hands them back to the kernel each time, which takes a tenth of the time.
    kept = os.environ | {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(8 << 30), "MALLOC_TOP_PAD_": str(256 << 20)}
    heeded = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the processes inherit it: Ctrl-C is for this one, which ends them
    running = [subprocess.Popen([*command, *group], env=kept) for group in groups if group]
    signal.signal(signal.SIGINT, heeded)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        while any(process.poll() is None for process in running) and not any(process.poll() for process in running):
            time.sleep(0.5)
        return next((1 for process in running if process.poll()), 0)
    except KeyboardInterrupt:
        _say(STOPPED)
        return 130
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait()


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
