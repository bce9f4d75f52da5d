"""Somebody who neither sees the page nor has a mouse: keys only, what a screen reader says unasked, and the page as it reads it.

A screen reader says what changes in a live region that stood in the page before. What comes together with its region is
silent in most of them, so the page's own regions count here only from a twentieth of a second on.
"""

from typing import Any

from playwright.sync_api import Page

LISTENS = """
const LIVE = "[aria-live=polite], [aria-live=assertive], [role=status]:not([aria-live=off]), [role=alert], output";
const known = new WeakSet();
window.heard = [];
const learn = () => { for (const region of document.querySelectorAll(LIVE)) known.add(region); };
setInterval(learn, 50);
new MutationObserver((changes) => {
  for (const { target } of changes) {
    const region = (target.closest ? target : target.parentElement)?.closest(LIVE);
    const text = region?.textContent.trim();
    if (text && known.has(region) && window.heard.at(-1) !== text) window.heard.push(text);
  }
}).observe(document, { subtree: true, childList: true, characterData: true });
"""
FOCUS = """() => {
  const one = document.activeElement;
  const text = one.getAttribute("aria-label") || one.labels?.[0]?.textContent || one.innerText || one.title || "";
  return text.trim();
}"""
HEARD = "(text) => window.heard.some((each) => each.includes(text))"
RUNS = "[...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].some((one) => one.textContent.includes('*'))"
ACTIVE = "document.querySelector('.jp-Notebook .jp-mod-active')"
PLACE = f"[...document.querySelectorAll('.jp-Notebook .jp-Cell')].indexOf({ACTIVE})"
SAYS = ("live", "checked", "pressed", "expanded", "selected", "disabled", "level")
INNER = ("none", "generic", "InlineTextBox", "LineBreak", "ListMarker")
LEAVES = ("image", "textbox", "StaticText")  # what is in them is not read again


class Listener:
    """Works in a page with keys alone; `heard` is what was said unasked."""

    def __init__(self, page: Page):
        self.page = page
        page.add_init_script(LISTENS)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    @property
    def focus(self) -> str:
        """The name of what has the focus."""
        return self.page.evaluate(FOCUS)

    def tab_to(self, name: str, key: str = "Tab", at_most: int = 60) -> None:
        """Presses a key until what has the focus begins with a name."""
        met = []
        for _ in range(at_most):
            self.page.keyboard.press(key)
            met.append(self.focus[:60])
            if met[-1].startswith(name):
                return
        raise AssertionError(f"no {name!r} within {at_most} times {key}: {met}")

    def back_to(self, name: str) -> None:
        """Into what the cells above gave."""
        self.tab_to(name, "Shift+Tab")

    def run_cell(self) -> None:
        """Runs the cell that has the focus and waits for its end; the next one has the focus then."""
        before = self.page.evaluate(PLACE)
        self.press("Shift+Enter")
        self.page.wait_for_function(
            f"(before) => {PLACE} === before + 1 && !{RUNS}", arg=before, timeout=300_000
        )

    def run_to(self, text: str) -> None:
        """Runs cells until one that holds a text has the focus."""
        for _ in range(60):
            if text in self.page.evaluate(f"{ACTIVE}.innerText"):
                return
            self.run_cell()
        raise AssertionError(f"no cell with {text!r}")

    def answers(self, code: str) -> None:
        """Types over the cell that has the focus, then runs it and its check; what was said before counts no longer."""
        self.page.evaluate("window.heard = []")
        self.press("Enter", "ControlOrMeta+A")
        self.page.keyboard.insert_text(code)
        self.press("Escape")
        for _ in range(2):
            self.run_cell()

    def hears(self, text: str) -> None:
        """Waits until something is said that has a text in it."""
        self.page.wait_for_function(HEARD, arg=text)


def transcript(page: Page, root: str = ".jp-Notebook") -> list[str]:
    """A part of the page as Chromium gives it to a screen reader, a line for each thing in it: what it is, its name, value and state."""
    session = page.context.new_cdp_session(page)
    for domain in ("Accessibility", "DOM"):
        session.send(f"{domain}.enable")
    document = session.send("DOM.getDocument")["root"]["nodeId"]
    node = session.send("DOM.querySelector", {"nodeId": document, "selector": root})["nodeId"]
    top = session.send("DOM.describeNode", {"nodeId": node})["node"]["backendNodeId"]
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    known = {each["nodeId"]: each for each in nodes}
    lines: list[str] = []

    def value(of: dict[str, Any], name: str) -> str:
        return str(of.get(name, {}).get("value") or "").strip()

    def read(one: dict[str, Any], depth: int) -> None:
        role, name = value(one, "role"), value(one, "name")
        states = {each["name"]: value(each, "value") for each in one.get("properties", [])}
        shown = not one.get("ignored") and (role not in INNER or name or states.get("live"))
        if shown and role != "ListMarker":
            said = [
                f"{word} {states[word]}"
                for word in SAYS
                if states.get(word) not in (None, "", "False", "false")
            ]
            parts = (role * (role != "StaticText"), f'"{name}"' * bool(name), value(one, "value"), *said)
            hint = value(one, "description")
            lines.append("  " * depth + " ".join(filter(None, (*parts, f"({hint})" * bool(hint)))))
        if role not in LEAVES:
            for child in one.get("childIds", []):
                if child in known:
                    read(known[child], depth + bool(shown))

    read(next(each for each in nodes if each.get("backendDOMNodeId") == top), 0)
    return lines
