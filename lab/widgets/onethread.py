"""Messages of widgets are handled on the kernel's main thread, one after the other.

JupyterLab (from 4.4 on) sends them to a thread of their own, a subshell of the kernel, so that a slider answers while a cell
runs. But the refreshing status and the cells change the same objects, so here the messages wait for their turn. That comes when the
main loop is free, and at the end of each cell: while cells are queued, the loop goes from one to the next and looks at nothing else.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

MESSAGES = ("comm_open", "comm_msg", "comm_close")


def handle_widget_messages_on_main_thread(kernel: Any) -> None:
    """From now on, a kernel's main thread handles messages of widgets."""
    from ipykernel.comm.comm import BaseComm  # not where a notebook runs in the browser

    loop, handlers = kernel.io_loop.asyncio_loop, kernel.shell_handlers
    waiting: deque[tuple[Callable, tuple, Future]] = deque()

    def handle_waiting() -> None:
        while waiting:
            handler, message, handled = waiting.popleft()
            try:
                handled.set_result(handler(*message))
            except Exception as error:  # noqa: BLE001  (the subshell reports it)
                handled.set_exception(error)

    def moved(handler: Callable) -> Callable:
        def handle(*message: Any) -> Any:
            if threading.current_thread() is threading.main_thread():
                return handler(*message)
            handled: Future = Future()
            waiting.append((handler, message, handled))
            loop.call_soon_threadsafe(handle_waiting)
            return asyncio.wrap_future(handled)

        return handle

    # from 7.4 on, ipykernel puts messages for what a cell has made behind the cells that are queued, whatever JupyterLab says
    BaseComm._reply_subshell_for = lambda self, data, subshell_id: subshell_id  # type: ignore[method-assign]
    handlers.update({kind: moved(handlers[kind]) for kind in MESSAGES})
    kernel.shell.events.register("post_execute", handle_waiting)
