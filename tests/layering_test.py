#!/usr/bin/env python3
"""Holds every #include to the table in docs/architecture.md, section "Folders".

A row is `| program/ | what it holds | std |`: a folder, and in the third column the folders it may
include, separated by commas; "std" for none. A folder may always include itself, and `device` does
not stand for `device/cpu`. tests/ and bench/ have no row and may include everything.
"""

import re
import sys

from source_tree import ROOT, cpp_files, relative, report

TABLE = ROOT / "docs" / "architecture.md"
UNRESTRICTED = ("tests", "bench")

# Headers of other people, and the folders (patterns) that may include them.
VENDOR = [
    (r"cuda|cudnn|cublas|nvml|nvrtc|nvtx|cub/|cutlass|dnnl|oneapi/|cblas\.h", r"device/\w+|bench"),
    (r"nccl", r"device/\w+|parallel/\w+"),
    (r"mpi\.h", r"device/\w+|parallel(/\w+)?"),
    (r"yaml-cpp/|CLI/", r"trainer(/.*)?|tests(/.*)?"),
    (r"nlohmann/", r"text|trainer(/.*)?|tests(/.*)?"),
    (r"pcre2|utf8proc|zlib\.h|zstd\.h", r"text|tests(/.*)?"),
]
# What a conditional above device/ may not ask: absence is a source file.
PRESENCE = re.compile(r"CUDA|NVCC|NCCL|CUDNN|CUBLAS|DNNL|\bMPI|_MPI\b")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CONDITIONAL = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif|elifdef|elifndef)\b(.*)")


def read_table(text):
    """{folder: folders it may include} from the rows of the section "Folders"."""
    section = re.search(r"^#+\s*(?:[\d.]+\s*)?Folders\s*$(.*?)(?=^#|\Z)", text, re.M | re.S)
    table = {}
    for line in section.group(1).splitlines() if section else []:
        cells = [cell.strip().replace("`", "") for cell in line.strip().strip("|").split("|")]
        if len(cells) == 3 and re.fullmatch(r"[\w/]+/", cells[0]):
            allowed = {name.strip().rstrip("/") for name in cells[2].split(",")}
            table[cells[0].rstrip("/")] = allowed - {"std", ""}
    return table


def folder_of(path, table):
    """The longest folder of the table that holds `path`, or None."""
    holders = [folder for folder in table if path.startswith(folder + "/")]
    return max(holders, key=len, default=None)


def check_table(table):
    for folder, allowed in sorted(table.items()):
        for name in sorted(allowed - set(table)):
            yield f"docs/architecture.md: the row of {folder}/ allows {name}, which has no row"


def check_include(path, kind, target, table, exists):
    """What is wrong with including `target` from `path`, or None."""
    home = path.rpartition("/")[0]
    for headers, homes in VENDOR:
        if re.match(headers, target) and not re.fullmatch(homes, home):
            return f"{target} belongs in {homes}"
    if kind == "<":
        return None
    if not exists(target):
        return f'"{target}" is not a path from the repository root'
    if home.partition("/")[0] in UNRESTRICTED:
        return None
    source, used = folder_of(path, table), folder_of(target, table)
    if source is None:
        return f"{home}/ has no row in docs/architecture.md"
    if used != source and used not in table[source]:
        return f"{source}/ may not include {target} (may: {', '.join(sorted(table[source])) or 'std'})"
    return None


def check_line(path, line, table, exists):
    include = INCLUDE.match(line)
    if include:
        return check_include(path, include.group(1), include.group(2), table, exists)
    conditional = CONDITIONAL.match(line)
    if conditional and PRESENCE.search(conditional.group(2)) and not path.startswith("device/"):
        return f"#{conditional.group(1)} about a device or library outside device/"
    return None


def self_test():
    """The rules on made-up lines, so that a broken rule cannot pass in silence."""
    table = read_table("## Folders\n| folder | holds | may include |\n|---|---|---|\n| program/ | a | std |\n"
                       "| `device/` | b | program, device/cpu |\n| device/cpu/ | c | program, device |\n"
                       "| trainer/ | d | program, device |\n## Next\n| x/ | e | std |\n")
    cases = [
        ("program/a.cc", '#include "program/b.h"', True),
        ("program/a.cc", '#include "device/b.h"', False),
        ("program/a.cc", '#include "b.h"', False),
        ("program/a.cc", "#include <vector>", True),
        ("program/a.cc", "#include <dnnl.h>", False),
        ("program/a.cc", "#include <yaml-cpp/yaml.h>", False),
        ("program/a.cc", "#if defined(SPILLWAY_CUDA)", False),
        ("program/a.cc", "#ifdef NDEBUG", True),
        ("device/cpu/a.cc", "#include <dnnl.h>", True),
        ("device/a.cc", "#include <dnnl.h>", False),
        ("device/a.cc", '#include "device/cpu/b.h"', True),
        ("trainer/a.cc", '#include "device/cpu/b.h"', False),
        ("trainer/a.cc", "#include <yaml-cpp/yaml.h>", True),
        ("tests/a.cc", '#include "device/cpu/b.h"', True),
        ("other/a.cc", '#include "program/b.h"', False),
    ]
    if sorted(table) != ["device", "device/cpu", "program", "trainer"]:
        yield f"self test: read the folders {sorted(table)}"
    for path, line, good in cases:
        found = check_line(path, line, table, lambda target: "/" in target)
        if (found is None) != good:
            yield f"self test: {path}: {line}: {found}"


def main():
    problems = list(self_test())
    table = read_table(TABLE.read_text()) if TABLE.exists() else {}
    if not table:
        return report("layering",
                      problems + ['docs/architecture.md: no table in a section "Folders"'])
    problems += check_table(table)
    for file in cpp_files():
        path = relative(file)
        for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
            problem = check_line(path, line, table, lambda target: (ROOT / target).is_file())
            if problem:
                problems.append(f"{path}:{number}: {problem}")
    return report("layering", problems)


sys.exit(main())
