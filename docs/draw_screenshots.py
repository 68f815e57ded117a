"""Screenshots of the report and the review page: python docs/draw_screenshots.py

Writes docs/images/report.png and docs/images/review.png. Needs chromium and playwright.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright
from sklearn.datasets import load_breast_cancer

IMAGES = Path(__file__).parent / "images"
COMMAND = [sys.executable, "-m", "gemmed"]
TABLE = ["cells.csv", "--target", "diagnosis", "--id", "sample"]


def write_cells(path):
    """Breast cancer with 34 wrong labels, 26 of them of one ward, and 8 areas times ten."""
    rng = np.random.default_rng(0)
    data = load_breast_cancer(as_frame=True)
    table = data.data.iloc[:, :10].copy()
    table.insert(0, "sample", [f"S{i:03d}" for i in range(len(table))])
    table["ward"] = rng.choice(["north", "south", "west"], len(table))
    labels = np.where(data.target == 0, "malignant", "benign").astype(object)
    of_ward = rng.permutation(np.flatnonzero(table["ward"] == "west"))[:26]
    wrong = np.concatenate([of_ward, rng.permutation(len(table))[:8]])
    labels[wrong] = np.where(labels[wrong] == "benign", "malignant", "benign")
    table.loc[rng.permutation(len(table))[:8], "mean area"] *= 10.0
    table.assign(diagnosis=labels).to_csv(path, index=False)


def main():
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        write_cells(Path(folder) / "cells.csv")
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1100, "height": 820})
        audit = [*COMMAND, "audit", *TABLE, "--html", "report.html"]
        subprocess.run(audit, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        page.goto(f"file://{folder}/report.html")
        page.screenshot(path=IMAGES / "report.png")
        review = subprocess.Popen(
            [*COMMAND, "review", *TABLE, "--reviewer", "ann", "--no-browser"],
            cwd=folder,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            address = next(
                found[0] for line in review.stdout if (found := re.search(r"http://\S+", line))
            )
            page.goto(address)
            page.wait_for_selector("article.sample")
            page.screenshot(path=IMAGES / "review.png")
        finally:
            review.kill()
            review.wait()
        browser.close()


if __name__ == "__main__":
    main()
