"""What axe-core finds: the rules of WCAG that a program can check, on what is ours of a page.

Not ours, and left out: JupyterLab's menus, bars, prompts and code editors. Of a lesson, its texts and all that its cells give
are looked at; of the page of the control room, all.
"""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

OURS = [[".jp-RenderedMarkdown"], [".jp-OutputArea-output"]]
GRAVE = ("serious", "critical")
ALL = ("minor", "moderate", *GRAVE)
THEMES = ("JupyterLab Light", "JupyterLab Dark")


def findings(page: Page, where: list[list[str]] | None = None, impacts: tuple[str, ...] = ALL) -> list[str]:
    """What axe finds, a line each: the rule, and up to three places."""
    found = Axe().run(page, {"include": where} if where else None, {"resultTypes": ["violations"]})
    return [
        f"{violation['id']} ({violation['impact']}): "
        + " | ".join(f"{node['target']} {node['html'][:120]}" for node in violation["nodes"][:3])
        for violation in found.response["violations"]
        if violation["impact"] in impacts
    ]


def grave(page: Page, where: list[list[str]] | None = None) -> list[str]:
    """Serious and critical findings."""
    return findings(page, where, GRAVE)


def of_lesson(page: Page) -> list[str]:
    """Those of a notebook that is open in JupyterLab, in both themes."""
    found = []
    for theme in THEMES:
        page.evaluate(f"window.jupyterapp.commands.execute('apputils:change-theme', {{theme: '{theme}'}})")
        light = str(theme == THEMES[0]).lower()
        page.wait_for_selector(f"body[data-jp-theme-light='{light}']", state="attached")
        page.wait_for_timeout(1_000)
        found += [f"{theme}: {finding}" for finding in grave(page, OURS)]
    return found
