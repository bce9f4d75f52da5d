"""Checks a built site: pages that must be there, no dead link within it, and nothing loaded from another host.

python -m book.check build/book
"""

import re
import sys
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "link": "href",
    "embed": "src",
    "object": "data",
}
NOT_LOADED = ("canonical", "next", "prev", "author", "license")
CSS_URL = re.compile(r"""(?:url\(|@import\s+)["']?((?:https?:)?//[^"')\s]+)""")


class Page(HTMLParser):
    """What a page loads, where its links lead, and the places in it that links can name."""

    def __init__(self, file: Path):
        super().__init__()
        self.file, self.loads, self.links, self.places = file, [], [], {""}  # type: ignore[var-annotated]
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        self.places |= {said.get("id", ""), said.get("name", "")}
        if tag == "link" and set(said.get("rel", "").split()) & set(NOT_LOADED):
            return
        if tag in LOADS and LOADS[tag] in said:
            self.loads.append(said[LOADS[tag]])
        if tag == "a" and "href" in said:
            self.links.append(said["href"])


def faults(site: Path, wanted: Iterable[str], left_out: tuple[str, ...] = ()) -> list[str]:
    """A sentence for each page that is missing, each link that leads nowhere and each request that would leave the site.

    `left_out`: names in the site that belong to others, who test them.
    """
    own = [file for file in sorted(site.rglob("*")) if file.relative_to(site).parts[0] not in left_out]
    pages = {file.resolve(): Page(file) for file in own if file.suffix == ".html"}
    found = [f"{name} is missing" for name in wanted if (site / name).resolve() not in pages]
    for file, page in pages.items():
        name = file.relative_to(site.resolve())
        found += [f"{name} loads {url}" for url in page.loads if urlsplit(url).netloc]
        local = (
            url for url in [*page.loads, *page.links] if not urlsplit(url).scheme and not urlsplit(url).netloc
        )
        found += [
            f"{name} links to {url}, which is not there"
            for url in dict.fromkeys(local)
            if not _leads(url, page, pages)
        ]
    for style in (file for file in own if file.suffix == ".css"):
        found += [f"{style.relative_to(site)} loads {url}" for url in CSS_URL.findall(style.read_text())]
    return found


def _leads(url: str, page: Page, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(url)
    target = (page.file.parent / unquote(parts.path)).resolve() if parts.path else page.file.resolve()
    if target.is_dir():
        target = target / "index.html"
    other = pages.get(target)
    return unquote(parts.fragment) in other.places if other and parts.fragment else target.is_file()


if __name__ == "__main__":
    from book.make import BESIDE, wanted

    said = faults(Path(sys.argv[1]), wanted(), tuple(BESIDE))
    print("\n".join(said) or "every link leads somewhere, and nothing is loaded from another host")
    sys.exit(bool(said))
