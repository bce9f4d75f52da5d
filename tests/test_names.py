"""The names of `lab` that notebooks use: an editor completes them, mypy knows their types, and each is there."""

from typing import assert_type

import jedi

import lab
from lab.model.schema import Schema
from lab.widgets.controlroom import ControlRoom


def test_every_public_name_is_there():
    assert len(dir(lab)) > 80
    assert [name for name in dir(lab) if getattr(lab, name, None) is None] == []


def test_an_editor_completes_the_public_names_and_knows_what_they_are():
    names = {name.name for name in jedi.Script("import lab\nlab.").complete(2, 4)}
    assert set(dir(lab)) <= names
    (room,) = jedi.Script("import lab\nlab.ControlRoom").infer(2, 8)
    assert (room.type, room.full_name) == ("class", "lab.widgets.controlroom.ControlRoom")


def test_mypy_knows_the_types_of_public_names() -> None:
    """`make lint` checks these lines: a name that is Any, as it was with `__getattr__` alone, fails there."""
    assert_type(lab.PAYMENTS, Schema)
    assert_type(lab.ControlRoom, type[ControlRoom])
