"""Find what a built site points to and does not have: files, pictures, anchors."""

import posixpath
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page offers (ids) and what it asks for (links, and what it loads)."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loads = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.ids |= {attributes[name] for name in ("id", "name") if attributes.get(name)}
        if attributes.get("src"):
            self.loads.append(attributes["src"])
        if attributes.get("href"):
            (self.loads if tag == "link" else self.links).append(attributes["href"])


def broken(folder):
    """Return a line for each link of the site that leads nowhere, and for each file that is loaded from elsewhere."""
    paths = sorted(folder.rglob("*.html"))
    pages = {path.relative_to(folder).as_posix(): Page(path.read_text(encoding="utf-8")) for path in paths}
    messages = []
    for name, page in pages.items():
        for target in [*page.links, *page.loads]:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                if target in page.loads and parts.scheme != "data":
                    messages.append(f"{name} loads {target} from another server")
                continue
            path = (
                posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path))) if parts.path else name
            )
            if not (folder / path).is_file():
                messages.append(f"{name} links to {target}, and there is no such file")
            elif parts.fragment and path in pages and unquote(parts.fragment) not in pages[path].ids:
                messages.append(f"{name} links to {target}, and {path} has no such anchor")
    return messages
