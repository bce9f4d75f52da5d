"""`lab simulate`: plays a generator into a log until it is told to stop, with a display and keys that change it."""

from argparse import ArgumentTypeError, Namespace

from lab.cli.options import (
    Subparsers,
    add_command,
    add_config_option,
    at_least,
    parse_log_place,
    parse_name_and_value,
    parse_schema_argument,
)
from lab.cli.replay import EVENTS
from lab.cli.restrict import add_token_option
from lab.stream.player import SCHEMAS

EXAMPLES = """\
examples:
  lab simulate payments --to logs/events                                   then, in another terminal: lab run --logs logs
  lab simulate logins --rate 50 --to kafka://127.0.0.1:9092/logins
  lab simulate --schema orders.toml --to logs/events                       for your own schema, from its types and examples
  lab simulate --events orders.jsonl --to logs/events                      your own events, unchanged
  lab simulate --events orders.csv --schema orders.toml --to logs/events   from CSV, each row as an object

Keys in a terminal: + and - change the rate by 20 %; p, b and s plant a burst (pair, beneficiary, surge); for logins
1 to 5 plant an episode; for other schemas s plants a busy group; space pauses; q quits. A burst comes on top of the rate.
"""


def add_command_to(commands: Subparsers) -> None:
    """Adds `lab simulate` to the command line."""
    command = add_command(
        commands,
        "simulate",
        run,
        "play a live stream of simulated or recorded events into a log",
        EXAMPLES,
        schema=False,
    )
    what = command.add_mutually_exclusive_group()
    what.add_argument(
        "schema",
        nargs="?",
        choices=SCHEMAS,
        metavar="payments|logins",
        help="a built-in stream with planted fraud",
    )
    what.add_argument(
        "--schema",
        dest="own",
        type=parse_schema_argument,
        metavar="FILE",
        help="a schema file like those of `lab infer`",
    )
    command.add_argument(
        "--events",
        type=parse_log_place,
        metavar="WHERE",
        help=f"recorded events: {EVENTS}; CSV also needs --schema",
    )
    command.add_argument(
        "--to", required=True, metavar="WHERE", help="log to write: a folder, or kafka://host:port/topic"
    )
    add_config_option(command)
    command.add_argument("--rate", type=_rate, default=500, metavar="N", help="events per second (500)")
    command.add_argument("--seconds", type=at_least(1), metavar="N", help="how long (until Ctrl-C)")
    command.add_argument(
        "--seed", type=at_least(0), default=1, metavar="N", help="another seed gives other events (1)"
    )
    command.add_argument(
        "--bursts",
        type=at_least(0),
        default=10,
        metavar="S",
        help="plant a burst every S seconds; 0: none (10)",
    )
    command.add_argument(
        "--ask",
        metavar="URL",
        help="ask this `lab restrict serve` before each event; an event that it forbids does not happen",
    )
    add_token_option(command)
    command.add_argument(
        "--on-outage",
        action="append",
        type=parse_name_and_value,
        default=[],
        metavar="ACTION=allow|deny",
        help="whether to allow events that the action restricts while the service does not answer (block_login=deny, hold_payment=deny)",
    )


def _rate(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not 0 < number <= 1_000_000:
        raise ArgumentTypeError(f"{text!r}, expected events per second, above 0 and up to 1000000")
    return number


def run(options: Namespace) -> None:
    """Plays what the options name."""
    from lab.studio.simulation import play_into_log

    play_into_log(
        options.to,
        options.schema or options.own,
        options.events,
        rate=options.rate,
        seconds=options.seconds or float("inf"),
        seed=options.seed,
        burst_every_s=options.bursts,
        ask_url=options.ask,
        token_file=options.token_file,
        on_outage=dict(options.on_outage),
        config_file=options.config,
    )
