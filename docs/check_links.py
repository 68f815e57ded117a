"""Check the links of the built site: python docs/check_links.py build/site

Every internal link, picture, script and anchor must be there, and no page may load anything from
elsewhere. Links to other sites are counted by host: they cannot be checked without a network.
Exit code 1 if something is broken.
"""

import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src")}


class Page(HTMLParser):
    """Anchors of a page and what it refers to."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loads = set(), set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors.update(value for name in ("id", "name") if (value := given.get(name)))
        for name in ("href", "src"):
            if value := given.get(name):
                self.links.add(value)
                # Only links that fetch: rel="next" and the like name pages.
                if (tag, name) in LOADED and given.get("rel", "stylesheet") in (
                    "stylesheet",
                    "icon",
                ):
                    self.loads.add(value)


def check(site):
    """Lines about what is broken, number of internal links, and external hosts."""
    files = [path for path in site.rglob("*.html") if "_static" not in path.parts]
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in files}
    broken, internal, hosts = [], 0, Counter()
    for path, page in sorted(pages.items()):
        where = path.relative_to(site)
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if parts.scheme in ("http", "https") or parts.netloc:
                    hosts[parts.netloc] += 1
                    if link in page.loads:
                        broken.append(f"{where}: loads {link} from elsewhere")
                continue
            internal += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
            if target.is_dir():
                target = target / "index.html"
            if not target.exists():
                broken.append(f"{where}: {link} is not there")
            elif parts.fragment and target.suffix == ".html":
                found = pages.get(site.resolve() / target.relative_to(site.resolve()))
                if found is not None and unquote(parts.fragment) not in found.anchors:
                    broken.append(f"{where}: {link} has no such anchor")
    return broken, len(pages), internal, hosts


def main():
    site = Path(sys.argv[1]).resolve()
    broken, n_pages, internal, hosts = check(site)
    print(*broken, sep="\n", end="\n" if broken else "")
    print(f"{n_pages} pages, {internal} internal links, {len(broken)} broken")
    if hosts:
        named = ", ".join(f"{host} ({count})" for host, count in hosts.most_common())
        print(f"not checked, on other sites: {named}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
