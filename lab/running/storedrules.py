"""`lab rules --store` and `lab lists --store`: rules and entries of lists as rows of a database; `lab cdc`: sends their changes to the control log."""

import time
from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import Any

from lab.logs.reading import POLL_S
from lab.machine.signals import stop_signals
from lab.model.alerts import utc_text
from lab.model.formatting import escape_control_characters
from lab.model.rules import BadRule, parse_message
from lab.rulestore import capture
from lab.rulestore.changes import RuleChange, change_to_message
from lab.rulestore.store import RuleStore
from lab.running.control import print_hints
from lab.running.target import Target, Usage


class StoredRules:
    """What `lab rules --store` and `lab lists --store` do with the rows of a store."""

    def __init__(self, store: RuleStore):
        self._store = store

    def store_rules(self, messages: Sequence[str], timeout_s: float) -> None:
        """Writes rules as rows. Raises BadRule if the engine refuses one."""
        started = time.monotonic()
        print_hints(messages, self._store.schema)
        for message in messages:
            self._store.put(message)
        ids = {parse_message(message, self._store.schema).rule_id for message in messages}
        self._wait_for_rules(ids, started, timeout_s)

    def change_rule_state(self, rule_id: int, state: str, timeout_s: float) -> None:
        """Pauses, activates or disables the rule of a row. Raises BadRule if the engine refuses that."""
        started = time.monotonic()
        if state == "DELETE":
            self._store.delete(rule_id)
        else:
            self._store.set_state(rule_id, state)
        self._wait_for_rules({rule_id}, started, timeout_s)

    def _wait_for_rules(self, waiting: set[int], started: float, timeout_s: float) -> None:
        """Waits for the engine's answers to changes of rules, if changes are captured."""
        for row in self._store.rows():
            if row["rule_id"] in waiting and row["status"].startswith("waits for approval"):
                waiting.remove(row["rule_id"])
                print(f"rule {row['rule_id']} {row['status']} (another user: `lab rules approve`)")
        for _ in self._looks(started + timeout_s):
            for row in self._store.rows():
                if row["rule_id"] in waiting and row["status"] != "waiting":
                    waiting.remove(row["rule_id"])
                    version = f" version {row['version_in_force']}" * (row["status"] == "in force")
                    took = f"({time.monotonic() - started:.2f} s)"
                    print(f"rule {row['rule_id']}{version} {row['status']} {took}")
                    if row["status"].startswith("refused"):
                        raise BadRule(f"rule {row['rule_id']} {row['status']}")
            if not waiting:
                return
        print(f"stored in {self._store}: no answer yet; `lab cdc run` sends it to the engine")

    def _looks(self, deadline: float) -> Iterator[None]:
        """Looks at the engine's answers: one now and, if changes are captured, others until the deadline."""
        yield
        if self._store.last_sent_change_id_by_log():
            while time.monotonic() < deadline:
                time.sleep(POLL_S)
                yield

    def print_rules(self) -> None:
        """Prints the rows: the version in force, the result of the last change, and who made it."""
        for row in self._store.rows():
            version = f"v{row['version_in_force']}" if row["version_in_force"] else "–"
            state = "disabled" if row["disabled"] else row["rule_state"]
            said = f"{self._described(row)}  [{row['status']}; {row['changed_by']}]"
            print(f"{row['rule_id']:6}  {version:4} {state:8} {escape_control_characters(said)}")

    def print_history(self, subject: int | str) -> None:
        """Prints the edits of a rule or an entry, who made them and when. Raises BadRule if there is none."""
        changes, proposals = self._store.history(subject), self._store.proposals(subject)
        if not (changes or proposals):
            raise BadRule(
                f"{subject if isinstance(subject, str) else f'rule {subject}'} is not in {self._store}"
            )
        for change in changes:
            by, at = change.approved_by, change.approved_at
            approval = f"  [approved by {by}, {at:%Y-%m-%d %H:%M:%S}]" if at else ""
            self._print_edit(change, f"{change.change_id:6}", approval)
        for proposal in proposals:
            self._print_edit(proposal, " " * 6, f"  [proposal {proposal.change_id} waits for approval]")

    def _print_edit(self, edit: RuleChange, number: str, approval: str) -> None:
        state = "disabled" if edit.row["disabled"] else edit.row.get("rule_state", "in")
        what = _described_entry(edit.row) if edit.is_entry else self._described(edit.row)
        said = f"{edit.changed_by:12} {state:8} {what}{approval}"
        print(f"{number}  {edit.changed_at:%Y-%m-%d %H:%M:%S}  {escape_control_characters(said)}")

    def approve_proposal(self, proposal_id: int) -> None:
        """Approves an edit that another user proposed. Raises BadRule."""
        self._store.approve(proposal_id)
        print(f"proposal {proposal_id} approved; `lab cdc run` sends it to the engine")

    def _described(self, row: Mapping[str, Any]) -> str:
        enabled = RuleChange(0, str(row["rule_id"]), {**row, "disabled": False})
        try:
            rule: Any = parse_message(change_to_message(enabled, ""), self._store.schema).rule
            return rule.describe()
        except BadRule as error:
            return f"not a rule for {self._store.schema.name} (another --schema?): {error}"

    # -- lists of entries ----------------------------------------------------------------------------------------------

    def change_entries(
        self,
        change: str,
        name: str,
        entries: Sequence[str] | None,
        until: int | str | None,
        reason: str | None,
        timeout_s: float,
    ) -> None:
        """Adds entries of a list or removes them, as `change` says; None: removes all. Raises BadRule if the engine refuses that."""
        started, position = time.monotonic(), self._store.last_change_id()
        if change == "add":
            self._store.put_entries(name, entries or (), until, reason=reason)
        else:
            self._store.remove_entries(name, entries, reason=reason)
        waits, answers = False, list[tuple[str, int, int | None]]()
        for _ in self._looks(started + timeout_s):
            answers = self._store.entry_answers(name, position)
            if not (waits := any(status == "waiting" for status, _, _ in answers)):
                break
        for status, count, version in sorted(answers, key=lambda each: each[:2]):
            of = f" version {version}" * (version is not None)
            some = f"{count:,} {'entry' if count == 1 else 'entries'}"
            if status.startswith("refused"):
                raise BadRule(f"list @{name}: {some} {status}")
            print(f"list @{name}{of}: {some} {status} ({time.monotonic() - started:.2f} s)")
        if waits:
            print(f"stored in {self._store}: no answer yet; `lab cdc run` sends it to the engine")
        if waiting := self._store.count_entries_to_approve(name):
            print(f"list @{name}: {waiting:,} edits wait for approval (another user: `lab rules approve`)")

    def print_lists(self, name: str | None) -> None:
        """Prints the lists with their sizes, or the entries of one. Raises BadRule if there is none of this name."""
        if name is None:
            for known, size in self._store.list_sizes().items():
                print(f"@{known}  entries: {size:,}")
            return
        rows = self._store.entries(name)
        if not rows:
            raise BadRule(f"list @{name} is not in {self._store}")
        for row in rows:
            print(
                escape_control_characters(f"{_described_entry(row)}  [{row['status']}; {row['changed_by']}]")
            )

    # -- lab cdc -------------------------------------------------------------------------------------------------------

    def print_capture_status(self) -> None:
        """Prints how far each control log has got."""
        store = self._store
        newest, positions = store.last_change_id(), store.last_sent_change_id_by_log()
        if not positions:
            print(
                f"{store}: {newest:,} changes, not captured into any control log yet; `lab cdc run` does that"
            )
        for place, position in positions.items():
            behind = newest - position
            print(
                f"{quote(escape_control_characters(place))}: change {position:,} of {newest:,}, {f'{behind:,} behind' if behind else 'up to date'}"
            )
            if store.url.get_backend_name() == "postgresql":
                from lab.rulestore.replication import slot_name, slot_status

                slot = slot_status(store, place) or {"active": False, "wal_status": "gone", "kept_bytes": 0}
                reader = "being read" if slot["active"] else "not being read"
                print(
                    f"  slot {slot_name(store, place)}: {reader}, {slot['kept_bytes'] or 0:,} bytes of log kept for it ({slot['wal_status']})"
                )

    def forget_capture(self, place: str) -> None:
        """Ends what is kept for a control log; captured into again, it first gets what it lacks. Raises Usage."""
        store = self._store
        if place not in store.last_sent_change_id_by_log():
            raise Usage(
                f"{place}: {store} does not write to it; `lab cdc status` names the logs that it writes to"
            )
        if store.url.get_backend_name() == "postgresql":
            from lab.rulestore.replication import drop_slot

            drop_slot(store, place)
        store.set_last_sent_change_id(place, None)
        print(f"changes are no longer kept for {place}")


def _described_entry(row: Mapping[str, Any]) -> str:
    until = "" if row["until_ms"] is None else f"  until {utc_text(row['until_ms'])} UTC"
    why = f"  ({row['reason']})" if row["reason"] else ""
    return f"{row['entry']}{until}{why}"


def run_capture(url: str, target: Target) -> None:
    """Captures the changes of the rule store with this URL until Ctrl-C."""
    target.logs.check_readable("acks")
    schema = target.required_schema
    target.logs.create_log("control")
    with stop_signals() as stopped:
        capture.run_capture(url, schema, target.logs, stopped, lambda text: print(text, flush=True))
