"""A headless Chromium that says what a page is like."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

# Colours as numbers, luminance and contrast as WCAG 2 defines them; text within
# pictures has a white ground or a box of its own and is looked at by eye.
_PROBE = """
<pre id="probe"></pre><script>
const lum = c => { const [r, g, b] = c.map(v => { v /= 255;
  return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const parse = s => (s.match(/[0-9.]+/g) || []).map(Number);
const ground = e => { for (; e; e = e.parentElement) {
  const c = parse(getComputedStyle(e).backgroundColor);
  if (c.length === 3 || c[3] > 0) return c.slice(0, 3); } return [255, 255, 255]; };
document.body.style.width = "340px"; document.body.style.boxSizing = "border-box";
document.body.style.margin = "0";
let least = 99, wide = [];
for (const e of document.querySelectorAll("main *")) {
  if (!e.closest(".scroll") && e.getBoundingClientRect().right > 341)
    wide.push(e.tagName);
  if (e.closest("svg") || ![...e.childNodes].some(n => n.nodeType === 3
      && n.data.trim())) continue;
  const a = lum(parse(getComputedStyle(e).color).slice(0, 3)), b = lum(ground(e));
  least = Math.min(least, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
}
const pictures = [...document.querySelectorAll("svg")];
const named = p => (p.getAttribute("aria-labelledby") || "").split(" ")
  .map(i => document.getElementById(i)).filter(e => e && p.contains(e)
    && e.textContent.trim()).length;
const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
document.getElementById("probe").textContent = JSON.stringify({
  contrast: least, wide, pictures: pictures.length,
  named: pictures.filter(p => p.getAttribute("role") === "img"
    && named(p) === 2).length,
  drawn: pictures.filter(p => p.getBoundingClientRect().height > 50).length,
  scrolls: [...document.querySelectorAll(".scroll")].filter(e =>
    getComputedStyle(e).overflowX === "auto" && e.scrollWidth > e.clientWidth).length,
  tables: document.querySelectorAll("table").length,
  loose: [...document.querySelectorAll("table")].filter(t =>
    !t.closest(".scroll")).length,
  scripts: document.querySelectorAll("script").length - 1,
  injected: document.querySelectorAll("main img, main b, main iframe").length,
  twice: ids.length - new Set(ids).size,
  first: document.querySelector("h2").textContent,
});
</script>
"""


def program():
    """Chromium's path; without one the test is skipped, and fails in CI."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        missing = "no chromium: make test installs the Debian package"
        assert "CI" not in os.environ, missing
        pytest.skip(missing)
    return found


def look_at(page):
    """Return what the page is like, and what it wrote to the console as it is."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "probed.html"
        text = page.read_text()
        # The page itself lets no script run, so the copy drops that.
        text, count = re.subn(r"<meta http-equiv=[^>]*>", "", text)
        assert count == 1
        copy.write_text(text.replace("</body>", _PROBE + "</body>"))
        plain = _call(folder, page)
        probed = _call(folder, copy)
    said = re.search(r'<pre id="probe">(.*?)</pre>', probed.stdout, re.DOTALL)[1]
    console = [line for line in plain.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(said.replace("&gt;", ">").replace("&amp;", "&")), console


def _call(folder, page):
    return subprocess.run(
        [program(), "--headless", "--no-sandbox", "--disable-gpu",
         "--enable-logging=stderr", "--v=0", f"--user-data-dir={folder}/profile",
         "--virtual-time-budget=5000", "--dump-dom", page.resolve().as_uri()],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
