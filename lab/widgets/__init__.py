"""Widgets to tune rules and watch alerts: each works alone, on a running engine or on recorded data; ControlRoom combines them."""

from IPython import get_ipython

from lab.stream.background import HAS_THREADS
from lab.widgets.onethread import handle_widget_messages_on_main_thread

if HAS_THREADS and (kernel := getattr(get_ipython(), "kernel", None)):
    handle_widget_messages_on_main_thread(kernel)
