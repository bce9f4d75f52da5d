"""Messages of widgets are handled on the kernel's main thread, one after the other.

JupyterLab (from 4.4 on) sends them to a thread of their own, a subshell of the kernel, so that a slider answers while a cell
runs. But the refreshing status and the cells change the same objects, so here the messages wait for their turn.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

MESSAGES = ("comm_open", "comm_msg", "comm_close")


def handle_widget_messages_on_main_thread(kernel: Any) -> None:
    """From now on, a kernel's main loop handles messages of widgets."""
    loop, handlers = kernel.io_loop.asyncio_loop, kernel.shell_handlers

    def moved(handler: Callable) -> Callable:
        def handle(*message: Any) -> Any:
            if threading.current_thread() is threading.main_thread():
                return handler(*message)

            async def later() -> None:
                handler(*message)

            return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(later(), loop))

        return handle

    handlers.update({kind: moved(handlers[kind]) for kind in MESSAGES})
