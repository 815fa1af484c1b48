"""The files of the checkout, for the tests that read the source."""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CPP = {".h", ".cc", ".cu", ".cuh"}
GENERATED = {".git", "build", "data", "runs", "__pycache__"}


def files():
    """Every file git would track; without git, every file outside the generated folders."""
    command = ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    has_git = shutil.which("git") and (ROOT / ".git").exists()
    listed = subprocess.run(command, capture_output=True).stdout if has_git else b""
    if listed:
        paths = [ROOT / name.decode() for name in listed.split(b"\0") if name]
    else:
        paths = []
        for folder, subfolders, names in os.walk(ROOT):
            subfolders[:] = [s for s in subfolders if s not in GENERATED]
            paths += [Path(folder) / name for name in names]
    return sorted(path for path in paths if path.is_file())


def cpp_files():
    return [path for path in files() if path.suffix in CPP]


def relative(path):
    return path.relative_to(ROOT).as_posix()


def report(test, problems):
    """Prints the problems, one a line, and returns the exit status."""
    for problem in problems:
        print(problem)
    print(f"{test}: {len(problems)} problems" if problems else f"{test}: ok")
    return 1 if problems else 0
