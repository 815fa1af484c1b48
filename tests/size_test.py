#!/usr/bin/env python3
"""Sizes of files and functions, and what no file may hold.

Limits, in lines: a C++ file 400, a function in it 40, a function in a CUDA file 150. Exceptions are
in tests/size_budget.txt. Every text file is ASCII and names neither folders of somebody's machine nor
the hosts that packages come from. Prints the lines of every folder.
"""

import collections
import re
import sys

from source_tree import CPP, ROOT, files, relative, report

FILE_LIMIT = 400
FUNCTION_LIMIT = 40
KERNEL_LIMIT = 150
CORE = ("program", "model", "parallel", "offload", "device", "text", "trainer")
BUDGET = ROOT / "tests" / "size_budget.txt"

MACHINE_PATH = re.compile(r"(?<![\w.~])/(root|work|home|Users)/")
PACKAGE_HOST = re.compile(
    r"\b((pypi|pythonhosted|npmjs|anaconda)\.(org|com)|(deb|security|ftp|snapshot)\.debian\.org|"
    r"(archive|ports)\.ubuntu\.com|crates\.io|proxy\.golang\.org)")

NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.S | re.M)
TYPE = re.compile(r"(inline\s+)?(namespace|class|struct|union|enum|extern)\b")
ACCESS = re.compile(r"^\s*(public|private|protected)\s*$")


def blank_noise(text):
    """`text` without comments, literals and preprocessor lines; every line keeps its place."""
    return NOISE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def classify(head):
    """What the block after `head`, outside any function, is: scope, function or data."""
    head = head.strip()
    while re.match(r"template\s*<", head):
        head = re.sub(r"^template\s*<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>\s*", "", head)
    if TYPE.match(head):
        return "scope"
    if ")" not in head:
        return "data"
    plain = re.sub(r"operator\s*[^\s\w(]+", "operator", head)
    while re.search(r"\([^()]*\)", plain):
        plain = re.sub(r"\([^()]*\)", "", plain)
    return "data" if "=" in plain and "[" not in plain.split("=", 1)[1] else "function"


def name_of(head):
    test = re.search(r"\bTEST(?:_F|_P)?\s*\(\s*(\w+)\s*,\s*(\w+)", head)
    if test:
        return f"{test.group(1)}.{test.group(2)}"
    named = re.search(r"([~\w:]+|operator\s*\S+?)\s*\(", re.sub(r"template\s*<[^()]*>", "", head))
    return named.group(1) if named else "?"


def functions(text):
    """(name, first line, lines) of every function of a C++ file, by counting braces."""
    text = blank_noise(text)
    blocks, head_start, parens = [], 0, 0
    for at, char in enumerate(text):
        inside = any(kind != "scope" for kind, _ in blocks)
        if char in "()":
            parens += 1 if char == "(" else -1
        elif char == "{":
            # In this project's format a body's brace follows a space, an initialiser's does not.
            initialiser = inside or parens > 0 or not text[at - 1].isspace()
            blocks.append(("inner" if initialiser else classify(text[head_start:at]), head_start))
            if blocks[-1][0] == "scope":
                head_start = at + 1
        elif char == "}" and blocks:
            kind, start = blocks.pop()
            if kind == "function":
                head = text[start:at]
                start += len(head) - len(head.lstrip())
                first, last = text.count("\n", 0, start) + 1, text.count("\n", 0, at) + 1
                yield name_of(head), first, last - first + 1
            if kind != "inner":
                head_start = at + 1
        elif not inside and parens == 0 and (
                char == ";" or char == ":" and ACCESS.match(text[head_start:at])):
            head_start = at + 1


class Budget:
    """The exceptions of tests/size_budget.txt: `what lines reason`, what = path or path:function."""

    def __init__(self, text):
        self.entries, self.used, self.problems = {}, set(), []
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split(None, 2)
            if not words or line.startswith("#"):
                continue
            if len(words) < 3 or not words[1].isdigit():
                self.problems.append(f"{relative(BUDGET)}:{number}: want `path[:function] lines reason`")
                continue
            self.entries[words[0]] = int(words[1])

    def check(self, place, what, lines, limit):
        if lines <= limit:
            return
        self.used.add(what)
        allowed = self.entries.get(what, limit)
        if lines > allowed:
            self.problems.append(f"{place}: {what} has {lines} lines, allowed are {allowed}")

    def unused(self):
        return [f"{relative(BUDGET)}: {what} is within the limits or gone; delete its line"
                for what in sorted(set(self.entries) - self.used)]


def check_text(path, text):
    """Problems of any text file."""
    for number, line in enumerate(text.split("\n"), 1):
        if not line.isascii():
            yield f"{path}:{number}: not ASCII: {ascii(next(c for c in line if not c.isascii()))}"
        for pattern in (MACHINE_PATH, PACKAGE_HOST):
            found = pattern.search(line)
            if found:
                yield f"{path}:{number}: names {found.group()}"


def check_sizes(path, text, budget):
    cuda = path.endswith((".cu", ".cuh"))
    if not cuda:
        budget.check(f"{path}:1", path, text.count("\n"), FILE_LIMIT)
    for name, first, lines in functions(text):
        budget.check(f"{path}:{first}", f"{path}:{name}", lines,
                     KERNEL_LIMIT if cuda else FUNCTION_LIMIT)


SAMPLE = """
namespace a {
// a comment with a { brace
constexpr Row kRows[] = {{"x{", f(1)}, {"y", [](int) { return 1; }}};
template <typename T, class U = std::vector<T>>
class C : public B {
 public:
  C(int a, std::vector<int> b = {}) : a_(a), b_{b} {
    if (a) {
    }
  }
  bool operator==(const C&) const = default;
  bool operator<(const C& o) const { return a_ < o.a_; }
 private:
  int a_{1'000};
};
int f(
    int x) {
  auto g = [&] { return "}"; };
  return g();
}
TEST(Suite, Name) {
}
}  // namespace a
"""
SAMPLE_FUNCTIONS = [("C", 8, 4), ("operator<", 13, 1), ("f", 17, 5), ("Suite.Name", 22, 2)]


def main():
    problems, budget = [], Budget(BUDGET.read_text())
    if list(functions(SAMPLE)) != SAMPLE_FUNCTIONS:
        problems.append(f"self test: functions of the sample are {list(functions(SAMPLE))}")
    lines = collections.Counter()
    for file in files():
        data = file.read_bytes()
        if b"\0" in data:
            continue
        path, text = relative(file), data.decode(errors="replace")
        problems += check_text(path, text)
        if file.suffix in CPP:
            lines[path.rpartition("/")[0]] += text.count("\n")
            check_sizes(path, text, budget)
    for folder, count in sorted(lines.items()):
        print(f"{count:7} {folder}/")
    print(f"{sum(n for folder, n in lines.items() if folder.split('/')[0] in CORE):7} core")
    return report("size", problems + budget.problems + budget.unused())


sys.exit(main())
