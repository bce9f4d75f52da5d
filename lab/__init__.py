"""Rules that change at run time, evaluated on event streams.

>>> import lab
>>> lab.PAYMENTS.id_fields
('transactionId',)

What notebooks use is here, and imported when it is first asked for: `import lab` is fast, and Spark waits for `lab.session()`.
`__init__.pyi` says where each name comes from.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_HOME_OF = {name: home for home, name in re.findall(r"^from (\S+) import (\w+)", _STUB, re.MULTILINE)}
__all__ = list(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'lab' has no attribute {name!r}; there are: {', '.join(__all__)}")
    home = _HOME_OF[name]
    found = getattr(import_module(home), name, None)
    return found or import_module(f"{home}.{name}")


def __dir__() -> list[str]:
    return __all__
