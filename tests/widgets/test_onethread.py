"""A click that JupyterLab sends to a subshell is handled where cells and the refreshing status run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

from tests.waiting import PATIENCE_S

BUTTON = """
import threading
import ipywidgets
button = ipywidgets.Button()
button.on_click(lambda _: print("clicked on", threading.current_thread().name))
print("made", button.comm.comm_id)
"""


def send(kernel: BlockingKernelClient, kind: str, content: dict, subshell: str) -> None:
    message = kernel.session.msg(kind, content)
    message["header"]["subshell_id"] = subshell
    kernel.shell_channel.send(message)


def next_printed(kernel: BlockingKernelClient) -> str:
    while True:
        message = kernel.get_iopub_msg(timeout=PATIENCE_S)
        if message["msg_type"] == "error":
            raise AssertionError(message["content"])
        if text := message["content"].get("text", "").strip():
            return text


def printed(kernel: BlockingKernelClient, after: str) -> str:
    while not (text := next_printed(kernel)).startswith(after):
        pass
    return text.removeprefix(after).strip()


@contextmanager
def kernel_with_button(
    first: str, made_in_cell: bool = False
) -> Iterator[tuple[BlockingKernelClient, Callable[[], None]]]:
    """A kernel that has run a cell, and what clicks on a button of its, as JupyterLab does, in a subshell, which made it unless a cell did."""
    manager, kernel = start_new_kernel()
    try:
        kernel.execute_interactive(first, timeout=PATIENCE_S)
        kernel.control_channel.send(kernel.session.msg("create_subshell_request", {}))
        subshell = kernel.get_control_msg(timeout=PATIENCE_S)["content"]["subshell_id"]
        if made_in_cell:
            kernel.execute(BUTTON)
        else:
            send(kernel, "execute_request", {"code": BUTTON, "silent": False}, subshell)
        button = printed(kernel, "made")
        click = {"method": "custom", "content": {"event": "click"}}
        yield kernel, lambda: send(kernel, "comm_msg", {"comm_id": button, "data": click}, subshell)
    finally:
        kernel.stop_channels()
        manager.shutdown_kernel(now=True)


def clicked_on(first: str) -> str:
    """The thread that handles a click on a button that was made by a subshell."""
    with kernel_with_button(first) as (kernel, click):
        click()
        return printed(kernel, "clicked on")


def test_a_click_is_handled_on_the_main_thread_and_by_jupyter_alone_it_is_not():
    assert clicked_on("").startswith("subshell")
    assert clicked_on("import lab.widgets") == "MainThread"


def test_so_it_is_if_another_thread_imports_the_widgets_first():
    elsewhere = (
        "import threading; t = threading.Thread(target=__import__, args=['lab.widgets']); t.start(); t.join()"
    )
    assert clicked_on(elsewhere) == "MainThread"


def test_of_cells_that_run_one_after_the_other_each_lets_the_clicks_before_its_end_be_handled():
    """Else a figure of the first cell stays empty until all have run: its page asks for what it draws."""
    with kernel_with_button("import time, lab.widgets", made_in_cell=True) as (kernel, click):
        for n in range(3):
            kernel.execute(f"print('cell', {n}, flush=True); time.sleep(1)")
        for n in range(3):
            assert printed(kernel, "cell") == str(n)
            click()
            assert next_printed(kernel) == "clicked on MainThread"
