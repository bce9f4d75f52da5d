"""Pictures of widgets for pages without a kernel: plots stay live, controls are shown as they stood."""

import ast
import json
import re
from html import escape

from nbformat import NotebookNode

from lab import teach

VIEW = "application/vnd.jupyter.widget-view+json"
MODELS = "application/x-book-widgets+json"  # the states of a view's models
PICTURE = '<div class="book-widget lab">{}</div>'
NOTE = '<p class="book-note">As it stood while the lesson ran. It moves in Jupyter.</p>'


def make_static(notebook: NotebookNode) -> None:
    """Replaces the widgets in a notebook's outputs by their pictures."""
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if VIEW in (data := output.get("data", {})):
                html = asked(cell.source) or picture(data[VIEW]["model_id"], data.get(MODELS, {}))
                output["data"] = {"text/html": html} if html else {"text/plain": data["text/plain"]}


def asked(code: str) -> str:
    """The question of a `lab.predict`, its options, and the answer folded; empty for other code."""
    if "lab.predict(" not in code:
        return ""
    call = ast.parse(code[code.index("lab.predict(") :]).body[0].value  # type: ignore[attr-defined]
    question, options = map(ast.literal_eval, call.args)
    _, known = teach._predictions_by_question()[question]
    right, because = options[known["right"]], known["because"]
    items = "".join(f"<li>{escape(option)}</li>" for option in options)
    return (
        f'<div class="book-question"><b>Before you read on:</b> {escape(question)}<ul>{items}</ul>'
        f"<details><summary>Answer</summary><b>{escape(right)}.</b> {escape(because)}</details></div>"
    )


def picture(model_id: str, models: dict) -> str:
    """A widget as HTML; empty if nothing of it can be seen."""
    made = _drawn(model_id, models)
    moves = any(f'class="{name}' in made for name in ("book-control", "book-slider", "lab-slider"))
    return PICTURE.format(made + NOTE * moves) if made else ""


def reachable(reference: str, models: dict) -> dict:
    """A model and those it refers to, without scripts and styles."""
    found: dict = {}
    waiting = [reference]
    while waiting:
        name = waiting.pop().removeprefix("IPY_MODEL_")
        if name in models and name not in found:
            state = {
                key: value for key, value in models[name]["state"].items() if key not in ("_esm", "_css")
            }
            found[name] = models[name] | {"state": state}
            waiting += re.findall(
                r"IPY_MODEL_\w+", json.dumps([state.get(key) for key in ("children", "layout")])
            )
    return found


def _drawn(reference: str, models: dict) -> str:
    model = models.get(reference.removeprefix("IPY_MODEL_"))
    if model is None:
        return ""
    state, name = model["state"], model["model_name"]
    layout = models.get(str(state.get("layout", "")).removeprefix("IPY_MODEL_"), {"state": {}})["state"]
    if layout.get("display") == "none" or layout.get("visibility") == "hidden":
        return ""
    if "_widget_data" in state:
        return figure(state, _with_buffers(model))
    label = escape(str(state.get("description") or ""))
    if "children" in state:
        return _box(name, state, models)
    if name in ("HTMLModel", "LabelModel", "HTMLMathModel"):
        return f"<div>{state['value'] if name == 'HTMLModel' else escape(state['value'])}</div>"
    if name in ("ButtonModel", "ToggleButtonModel"):
        return f'<button class="book-control" disabled>{label}</button>' if label else ""
    if "columns" in state and "rows" in state:
        return _table(state)
    if "texts" in state:
        return _slider(state["label"], state["position"], max(len(state["texts"]) - 1, 0), state["text"])
    if "max" in state and "min" in state:
        return _slider(
            state.get("description", ""), state["value"], state["max"], str(state["value"]), state["min"]
        )
    if "_options_labels" in state:
        chosen = state["_options_labels"][state["index"]] if state.get("index") is not None else ""
        return f'<span class="book-control">{label} <b>{escape(str(chosen))}</b></span>'
    if isinstance(state.get("value"), (str, bool, int, float)) and name != "AnyModel":
        return (
            f'<span class="book-control">{label} <b>{escape(str(state["value"]))}</b></span>' if label else ""
        )
    return ""


def _box(name: str, state: dict, models: dict) -> str:
    children = state["children"]
    titles = state.get("titles") or ()
    if name == "TabModel":
        chosen = state.get("selected_index") or 0
        heads = "".join(
            f'<span class="book-control">{"<b>" * (n == chosen)}{escape(title)}{"</b>" * (n == chosen)}</span>'
            for n, title in enumerate(titles)
        )
        return f'<div class="book-row">{heads}</div>{_drawn(children[chosen], models)}'
    inside = "".join(_drawn(child, models) for child in children)
    classes = " ".join([{"HBoxModel": "book-row"}.get(name, "book-column"), *state.get("_dom_classes", ())])
    return f'<div class="{escape(classes)}">{inside}</div>' if inside else ""


def _table(state: dict) -> str:
    numeric = set(state["numeric"])

    def cells(kind: str, texts: list) -> str:
        of = (
            f"<{kind}{' class=number' * (n in numeric)}>{escape(str(text))}</{kind}>"
            for n, text in enumerate(texts)
        )
        return f"<tr>{''.join(of)}</tr>"

    rows = "".join(cells("td", row[1:]) for row in state["rows"])
    rows = (
        rows or f'<tr><td class="none" colspan="{len(state["columns"])}">{escape(state["empty"])}</td></tr>'
    )
    return (
        f'<div class="lab-table" role="group" tabindex="0" aria-label="{escape(state["label"])}"><table>'
        f"<thead>{cells('th', state['columns'])}</thead><tbody>{rows}</tbody></table></div>"
    )


def _slider(label: str, value: float, most: float, text: str, least: float = 0) -> str:
    return (
        f'<label class="lab-slider"><span>{escape(label)}</span><input type="range" disabled min="{least}" max="{most}" value="{value}">'
        f"<output>{escape(text)}</output></label>"
    )


def figure(state: dict, drawn: tuple) -> str:
    """A plot: plotly draws it when it comes into view, with its table; a sentence says what it shows."""
    data, layout = drawn
    content = json.dumps({"data": data, "layout": layout, "config": state.get("_config") or {}}).replace(
        "<", "\\u003c"
    )
    height = layout.get("height") or (106 if "lab-strip" in state.get("_dom_classes", ()) else 260)
    return (
        f'<figure class="book-figure"><div class="book-plot" style="height:{height:g}px"></div>'
        f'<script type="application/json">{content}</script><figcaption>{escape(told(data, layout))}</figcaption></figure>'
    )


def told(data: list, layout: dict) -> str:
    """A sentence about a plot.

    >>> told([{"type": "bar", "name": "a"}], {"xaxis": {"title": {"text": "task"}}, "yaxis": {"title": {"text": "events"}}})
    'Plot: events by task; shown: a.'
    """

    def text(of: dict, name: str) -> str:
        return str(((of.get(name) or {}).get("title") or {}).get("text") or "")

    title = str((layout.get("title") or {}).get("text") or "")
    axes = " by ".join(filter(None, (text(layout, "yaxis"), text(layout, "xaxis"))))
    names = list(dict.fromkeys(str(trace["name"]) for trace in data if trace.get("name")))
    parts = ": ".join(filter(None, ("Plot", title, axes)))
    return f"{parts}{'; shown: ' + ', '.join(names) if names else ''}."


def _with_buffers(model: dict) -> tuple:
    """Data and layout, their arrays as plotly's script reads them: {dtype, bdata}."""
    state = json.loads(json.dumps({key: model["state"][key] for key in ("_widget_data", "_widget_layout")}))
    for buffer in model.get("buffers", []):
        *path, last = buffer["path"]
        if not path or path[0] not in state:
            continue
        at = state
        for step in path:
            at = at[step]
        at[last] = buffer["data"]
    return tuple(_arrays(state[key]) for key in ("_widget_data", "_widget_layout"))


def _arrays(value):
    if isinstance(value, list):
        return list(map(_arrays, value))
    if not isinstance(value, dict):
        return value
    if value.keys() == {"dtype", "shape", "buffer"}:
        return {"dtype": value["dtype"], "bdata": value["buffer"]}
    return {key: _arrays(entry) for key, entry in value.items() if key not in ("uid", "template")}
