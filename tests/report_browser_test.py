#!/usr/bin/env python3
"""Opens a report of `spillway bench` in headless Chromium: phone and desktop, light and dark, and print.

    report_browser_test.py SPILLWAY TABLE

Fails on a message on the console, on a page wider than its window, on a chart without marks, and on a
theme that does not change. Exit status 77: skipped, Chromium is not here (scripts/install --tests).
"""

import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
SIZES = {"phone": (390, 844), "desktop": (1440, 900)}
THEMES = {"dark": 0, "light": 1}  # as Blink numbers them
CONSOLE = re.compile(r":CONSOLE[:(].*")

# What only the page itself can see, written where --dump-dom shows it. A frame has the width of a phone
# where Chromium's own window does not get that narrow.
PROBE = """
<script>
window.addEventListener("load", function () {
  function count(root, what) { return root.querySelectorAll(what).length; }
  var page = document.documentElement;
  var result = {
    page: page.scrollWidth, window: page.clientWidth,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    paper: getComputedStyle(document.body).backgroundColor,
    charts: Array.from(document.querySelectorAll("figure[data-chart]")).map(function (figure) {
      var shown = figure.querySelector(".series.chosen"), drawing = figure.querySelector(".chosen > svg");
      return {marks: shown ? count(shown, ".mark") : 0, labels: shown ? count(shown, "svg text") : 0,
              width: drawing ? drawing.clientWidth : 0,
              choices: count(figure, "option")};
    })
  };
  window.dispatchEvent(new Event("beforeprint"));
  result.folded_in_print = count(document, "details:not([open])");
  window.dispatchEvent(new Event("afterprint"));
  result.folded = count(document, "details:not([open])");
  if (parent !== window) parent.postMessage(JSON.stringify(result), "*");
});
</script>
"""
FRAME = """<!DOCTYPE html><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<body style="margin:0"><iframe src="%s" style="border:0;width:%dpx;height:%dpx"></iframe>
<pre id="probe"></pre><script>
window.addEventListener("message", function (event) {
  document.getElementById("probe").textContent = event.data;
});
</script></body>
"""


def make_report(spillway, table, folder):
    run = subprocess.run([spillway, "bench", table, "--out", str(folder)], capture_output=True, text=True,
                         timeout=200)
    if run.returncode != 0:
        sys.exit(f"report_browser: spillway bench ended with {run.returncode}:\n{run.stdout}{run.stderr}")
    return folder / "report.html"


def look(chromium, report, folder, size, theme):
    """What the probe saw, and the lines of the console."""
    probed, frame = folder / "probed.html", folder / "frame.html"
    page = report.read_text(encoding="utf-8")
    probed.write_text(page.replace("</body>", PROBE + "</body>"), encoding="utf-8")
    frame.write_text(FRAME % (probed.name, *size))
    run = subprocess.run(
        [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         f"--user-data-dir={folder / 'profile'}", f"--window-size={size[0] + 400},{size[1] + 200}",
         f"--blink-settings=preferredColorScheme={THEMES[theme]}", "--virtual-time-budget=5000",
         "--enable-logging=stderr", "--v=0", "--dump-dom", frame.as_uri()],
        capture_output=True, text=True, timeout=120)
    found = re.search(r'<pre id="probe">(\{.*?\})</pre>', run.stdout, re.S)
    if not found:
        sys.exit(f"report_browser: the page did not load:\n{run.stdout[-2000:]}\n{run.stderr[-4000:]}")
    return json.loads(html.unescape(found.group(1))), CONSOLE.findall(run.stderr)


def problems_of(seen, console, size, theme):
    yield from (f"the console says {line}" for line in console)
    if seen["window"] > size[0] or seen["window"] < size[0] - 20:  # 20: a scroll bar
        yield f"the window is {seen['window']} pixels wide, not {size[0]}"
    if seen["page"] > seen["window"]:
        yield f"the page is {seen['page']} pixels wide, its window {seen['window']}"
    if seen["dark"] != (theme == "dark"):
        yield f"the theme is not {theme}"
    if len(seen["charts"]) < 3:
        yield f"there are {len(seen['charts'])} charts, not one of each kind"
    for i, chart in enumerate(seen["charts"]):
        if chart["marks"] < 1 or chart["labels"] < 2 or chart["width"] < size[0] / 2:
            yield f"chart {i} is empty or small: {chart}"
    if seen["folded"] < 1 or seen["folded_in_print"] != 0:
        yield f"{seen['folded']} parts are folded, and {seen['folded_in_print']} in print"


def main():
    spillway, table = sys.argv[1:]
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("report_browser: skipped, Chromium is not here (scripts/install --tests)")
        return SKIPPED
    problems, papers = [], {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        os.environ["HOME"] = temporary  # what Chromium writes beside its profile
        report = make_report(spillway, table, folder)
        for name, size in SIZES.items():
            for theme in THEMES:
                seen, console = look(chromium, report, folder, size, theme)
                papers[theme] = seen["paper"]
                problems += [f"{name}, {theme}: {it}" for it in problems_of(seen, console, size, theme)]
    if papers["light"] == papers["dark"]:
        problems.append(f"the page is {papers['light']} in both themes")
    for problem in problems:
        print(f"report_browser: {problem}")
    return 1 if problems else 0


sys.exit(main())
