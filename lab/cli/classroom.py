"""`lab class`: a dry run, a live board of a class, and a report of what it solved and where it stumbled, from the logs that learners handed in."""

import argparse
from pathlib import Path

from lab.cli.options import Subparsers, add_command, add_group

PORT, LEARNERS = 8770, 60


def add_commands(commands: Subparsers) -> None:
    """Adds `lab class` to the command line."""

    def run(options: argparse.Namespace) -> None:
        from lab.teach.report import print_class_report

        print_class_report(options.folder, options.out)

    group = add_group(
        commands,
        "class",
        "for classes: try the lessons before, show a class while it works, report where it had trouble",
    )
    command = add_command(
        group,
        "report",
        run,
        "check a class's hand-ins again, and make one page of who solved what",
        """\
example:
  lab class report handed-in --out class.html

Learners who want to take part run lab.log_stumbles() in a notebook before their first check, and lab.hand_in() at the end:
that writes the file that they give to you. Right answers in it are checked again; nothing in it is run as code.
""",
        schema=False,
    )
    command.add_argument(
        "folder", type=Path, help="folder with the files hand-in-….jsonl, also in subfolders"
    )
    command.add_argument(
        "--out", type=Path, default=Path("class.html"), metavar="FILE", help="the page to write (%(default)s)"
    )
    _add_board(group)
    _add_join(group)
    _add_check(group)


def _add_board(group: Subparsers) -> None:
    command = add_command(
        group,
        "board",
        _serve_board,
        "show a class while it works: who tries what, the votes in predictions, and what to say next",
        """\
examples:
  lab class board                     learners on this machine, such as those of a hub
  lab class board --room              learners in this machine's network
  lab class board --language ko       the page in Korean

Learners join with the code that the page shows; nobody else is on it. Nothing is stored, and nothing leaves the room.
""",
        schema=False,
        is_service=True,
    )
    command.add_argument("--port", type=int, default=PORT, help="port to listen on (%(default)s)")
    command.add_argument(
        "--room",
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="let learners in this machine's network join, at the ADDRESS of this machine (found by itself)",
    )
    command.add_argument(
        "--learners", type=int, default=LEARNERS, metavar="N", help="at most so many learners (%(default)s)"
    )
    command.add_argument("--language", metavar="NAME", help="of the page: en, ko or zh")


def _serve_board(options: argparse.Namespace) -> None:
    from threading import Event

    from lab.model.language import speak
    from lab.teach.classboard import LOOPBACK, board_serving, room_address
    from lab.teach.classroom import Classroom

    if options.language:
        speak(options.language)
    host = LOOPBACK if options.room is None else options.room or room_address()
    with board_serving(Classroom(options.learners), host, options.port) as board:
        print(f"learners join: lab class join {board.address} {board.room.code} --name NAME", flush=True)
        print(f"the board, for you: {board.link}", flush=True)
        Event().wait()


def _add_check(group: Subparsers) -> None:
    def run(options: argparse.Namespace) -> None:
        from lab.teach.dryrun import check_lessons

        check_lessons(options.lessons)

    command = add_command(
        group,
        "check",
        run,
        "run lessons before a class, and name the cells that are slower on this machine than the text says",
        "example:\n  lab class check 0 3 7\n",
        schema=False,
    )
    command.add_argument(
        "lessons",
        nargs="*",
        type=int,
        metavar="LESSON",
        help="numbers of lessons (all, which takes half an hour)",
    )


def _add_join(group: Subparsers) -> None:
    def join(options: argparse.Namespace) -> None:
        from lab.teach.classlink import join_class
        from lab.teach.judge import RIGHT

        verdict = join_class(options.address, options.code, options.name)
        if verdict.state != RIGHT:
            raise OSError(verdict.text)
        print(verdict.text)

    def leave(options: argparse.Namespace) -> None:
        from lab.teach.classlink import leave_class

        print(leave_class().text)

    command = add_command(
        group,
        "join",
        join,
        "take part in a class: its board shows your checks and votes",
        "example:\n  lab class join 192.168.1.5:8770 K7Q2MX4T --name Ada\n",
        schema=False,
    )
    command.add_argument("address", help="address of the board, as on the projector")
    command.add_argument("code", help="code of the class, as on the projector")
    command.add_argument("--name", required=True, help="your name, as the teacher shall see it")
    add_command(group, "leave", leave, "take part in no class any more", schema=False)
