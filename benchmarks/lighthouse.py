"""Lighthouse's four scores of the built site, served compressed, as a phone and as a desk see it.

    npm install --prefix /tmp/lighthouse lighthouse@12
    python benchmarks/lighthouse.py /tmp/lighthouse/node_modules/.bin/lighthouse

It needs Node.js and Chromium (``CHROME_PATH``, else ``chromium``), and writes ``results/lighthouse.json``.
Scores of performance depend on how busy the machine is: the load average is kept beside them.
"""

import functools
import gzip
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "lighthouse.json"
PAGES = ("chapters/index.html", "chapters/tensors/views.html", "chapters/folklore.html")
CATEGORIES = ("performance", "accessibility", "best-practices", "seo")
TEXT = (".html", ".css", ".js", ".svg")


class Compressed(http.server.SimpleHTTPRequestHandler):
    """Answers as a host would: text compressed, files kept a day."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        file = Path(self.translate_path(self.path))
        if not file.is_file() or file.suffix not in TEXT:
            return super().do_GET()
        body = gzip.compress(file.read_bytes())
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(file)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Cache-Control", "max-age=86400")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def scores(lighthouse: str, address: str, preset: str) -> dict[str, float]:
    """The score of each category, 0 to 1. Raises CalledProcessError where Lighthouse fails."""
    chrome = os.environ.get("CHROME_PATH") or shutil.which("chromium")
    command = [lighthouse, address, "--quiet", "--output=json", "--chrome-flags=--headless --no-sandbox --disable-gpu"]
    command += ["--preset=desktop"] if preset == "desktop" else []
    done = subprocess.run(command, env=os.environ | {"CHROME_PATH": chrome}, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    found = {name: report["categories"][name]["score"] for name in CATEGORIES}
    return found | {"cumulative_layout_shift": round(report["audits"]["cumulative-layout-shift"]["numericValue"], 4)}


def main(lighthouse: str, site: Path = ROOT / "_build" / "html") -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Compressed, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    version = subprocess.run([lighthouse, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    result = {"date": date.today().isoformat(), "lighthouse": version, "cores": os.cpu_count(), "pages": {}}
    for page in PAGES:
        for preset in ("mobile", "desktop"):
            found = scores(lighthouse, f"http://127.0.0.1:{server.server_port}/{page}", preset)
            result["pages"][f"{page} {preset}"] = found | {"load_average": round(os.getloadavg()[0], 1)}
            print(page, preset, found)
    RESULT.write_text(json.dumps(result, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(Path, sys.argv[2:3]))
