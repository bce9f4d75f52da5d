"""What follows an edit of a rule or an entry: triggers that write the history, the views of what became of it, and the rights of each user."""

from collections.abc import Iterator

from sqlalchemy import JSON, Boolean, Column, Table

from lab.rulestore.tables import LIST_ENTRIES, PUBLICATION, RULES

_KEPT = {
    RULES: "a rule is not deleted: UPDATE rules SET disabled = true; its history stays",
    LIST_ENTRIES: "an entry is not deleted: UPDATE list_entries SET disabled = true; its history stays",
}
_SAME = {
    RULES: "rule_id never changes: disable the rule and insert another",
    LIST_ENTRIES: "list_name and entry never change: disable the entry and insert another",
}


def _in_json(column: Column) -> str:
    new = f"NEW.{column.name}"
    if isinstance(column.type, Boolean):
        new = f"json(iif({new}, 'true', iif({new} = 0, 'false', NULL)))"
    return f"'{column.name}', {f'json({new})' if isinstance(column.type, JSON) else new}"


def _differs(columns: list[str], sign: str) -> str:
    return " OR ".join(f"NEW.{name} {sign} OLD.{name}" for name in columns)


def _sqlite_triggers(table: Table, subject: str) -> Iterator[str]:
    """What records the edits of a table's rows. `subject`: that of the row NEW."""
    keys = [column.name for column in table.primary_key]
    noted = [column for column in table.columns if column.name != "changed_by"]
    changed = _differs([column.name for column in noted if column.name not in keys], "IS NOT")
    record = f"""BEGIN INSERT INTO rule_changes (subject, changed_at, changed_by, row_after)
        VALUES ({subject}, strftime('%%Y-%%m-%%d %%H:%%M:%%f000', 'now'), NEW.changed_by,
        json_object({", ".join(map(_in_json, noted))})); END"""
    yield f"CREATE TRIGGER {table}_inserted AFTER INSERT ON {table} {record}"
    yield f"CREATE TRIGGER {table}_updated AFTER UPDATE ON {table} WHEN {changed} {record}"
    yield f"CREATE TRIGGER {table}_kept BEFORE DELETE ON {table} BEGIN SELECT RAISE(ABORT, '{_KEPT[table]}'); END"
    yield f"""CREATE TRIGGER {table}_same BEFORE UPDATE OF {", ".join(keys)} ON {table} WHEN {_differs(keys, "IS NOT")}
        BEGIN SELECT RAISE(ABORT, '{_SAME[table]}'); END"""


def _postgresql_triggers(table: Table) -> Iterator[str]:
    keys = [column.name for column in table.primary_key]
    yield f"""CREATE FUNCTION lab_check_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF TG_OP = 'UPDATE' AND ({_differs(keys, "<>")}) THEN RAISE EXCEPTION '{_SAME[table]}'; END IF;
        NEW.changed_by := session_user;
        RETURN NEW;
    END $$"""
    yield f"""CREATE FUNCTION lab_keep_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE EXCEPTION '{_KEPT[table]}';
    END $$"""
    for name, when, function in (
        ("checked", "BEFORE INSERT OR UPDATE ON {} FOR EACH ROW", f"lab_check_{table}"),
        ("changed", "AFTER INSERT OR UPDATE ON {} FOR EACH ROW", "lab_record_change"),
        ("kept", "BEFORE DELETE OR TRUNCATE ON {} FOR EACH STATEMENT", f"lab_keep_{table}"),
    ):
        yield f"CREATE TRIGGER {table}_{name} {when.format(table)} EXECUTE FUNCTION {function}()"


SQLITE_TRIGGERS = (
    *_sqlite_triggers(RULES, "NEW.rule_id"),
    *_sqlite_triggers(LIST_ENTRIES, "'@' || NEW.list_name || ' ' || NEW.entry"),
)
# the trigger that writes the history runs as its owner: editors need no right to write it, and cannot
POSTGRESQL_TRIGGERS = (
    """CREATE FUNCTION lab_record_change() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$
    DECLARE edited jsonb := to_jsonb(NEW) - 'changed_by';
        about text := coalesce(edited ->> 'rule_id', '@' || (edited ->> 'list_name') || ' ' || (edited ->> 'entry'));
    BEGIN
        IF TG_OP = 'INSERT' OR edited <> to_jsonb(OLD) - 'changed_by' THEN
            IF NOT (SELECT two_persons FROM public.rule_store) THEN
                DELETE FROM public.rule_proposals WHERE subject = about;
                INSERT INTO public.rule_changes (subject, changed_at, changed_by, row_after)
                VALUES (about, clock_timestamp(), NEW.changed_by, edited);
            ELSIF coalesce((SELECT row_after FROM public.rule_changes WHERE subject = about
                            ORDER BY change_id DESC LIMIT 1) = edited, NEW.disabled) THEN
                DELETE FROM public.rule_proposals WHERE subject = about;  -- all is as approved: withdrawn
            ELSE
                INSERT INTO public.rule_proposals (subject, proposed_at, proposed_by, row_after)
                VALUES (about, clock_timestamp(), NEW.changed_by, edited);
            END IF;
        END IF;
        RETURN NULL;
    END $$""",
    # an approved edit becomes a row of the history, which is all that captures see; the session's user is who logged in
    """CREATE FUNCTION lab_approve(number bigint) RETURNS bigint LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$
    DECLARE proposed public.rule_proposals; newest bigint; change bigint;
    BEGIN
        SELECT * INTO proposed FROM public.rule_proposals WHERE proposal_id = number FOR UPDATE;
        IF NOT FOUND THEN
            RAISE EXCEPTION USING MESSAGE = 'no proposal ' || number || ' waits for approval';
        END IF;
        SELECT max(proposal_id) INTO newest FROM public.rule_proposals WHERE subject = proposed.subject;
        IF newest <> number THEN
            RAISE EXCEPTION USING MESSAGE = 'proposal ' || number || ' is outdated: the newest of '
                || CASE left(proposed.subject, 1) WHEN '@' THEN '' ELSE 'rule ' END || proposed.subject || ' is proposal ' || newest;
        END IF;
        IF EXISTS (SELECT FROM public.rule_proposals WHERE subject = proposed.subject AND proposed_by = session_user) THEN
            RAISE EXCEPTION USING MESSAGE = 'proposal ' || number || ' contains edits by ' || session_user
                || ': another user must approve it';
        END IF;
        INSERT INTO public.rule_changes (subject, changed_at, changed_by, row_after, approved_by, approved_at)
        VALUES (proposed.subject, proposed.proposed_at, proposed.proposed_by, proposed.row_after, session_user, clock_timestamp())
        RETURNING change_id INTO change;
        DELETE FROM public.rule_proposals WHERE subject = proposed.subject AND proposal_id <= number;
        RETURN change;
    END $$""",
    "REVOKE EXECUTE ON FUNCTION lab_approve(bigint) FROM PUBLIC",
    *_postgresql_triggers(RULES),
    *_postgresql_triggers(LIST_ENTRIES),
    f"CREATE PUBLICATION {PUBLICATION} FOR TABLE rule_changes WITH (publish = 'insert')",
)


def _status_view(view: str, table: str, subject: str) -> str:
    return f"""CREATE VIEW {view} AS
    SELECT {table}.*, answers.version AS version_in_force,
        CASE WHEN proposals.proposal_id IS NOT NULL THEN 'waits for approval: proposal ' || proposals.proposal_id
            WHEN newest.change_id IS NULL THEN 'removed'
            ELSE CASE newest.change_id WHEN answers.refused_change THEN 'refused: ' || answers.reason
            WHEN answers.accepted_change THEN CASE WHEN answers.version IS NULL OR disabled THEN 'removed' ELSE 'in force' END
            ELSE 'waiting' END END AS status
    FROM {table}
    LEFT JOIN (SELECT subject, max(change_id) AS change_id FROM rule_changes GROUP BY subject) AS newest
        ON newest.subject = {subject}
    LEFT JOIN (SELECT subject, max(proposal_id) AS proposal_id FROM rule_proposals GROUP BY subject) AS proposals
        ON proposals.subject = {subject}
    LEFT JOIN rule_answers AS answers ON answers.subject = {subject}"""


STATUS_VIEWS = (
    _status_view("rule_status", "rules", "CAST(rules.rule_id AS TEXT)"),
    _status_view("list_status", "list_entries", "'@' || list_entries.list_name || ' ' || list_entries.entry"),
)
GRANTS = """DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'reader') THEN
        GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'analyst') THEN
        GRANT SELECT ON ALL TABLES IN SCHEMA public TO analyst;
        GRANT INSERT, UPDATE ON rules, list_entries TO analyst;
        GRANT EXECUTE ON FUNCTION lab_approve(bigint) TO analyst;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'capture') THEN
        GRANT SELECT ON ALL TABLES IN SCHEMA public TO capture;
        GRANT INSERT, UPDATE, DELETE ON rule_answers, rule_captures TO capture;
        GRANT UPDATE (identity) ON rule_store TO capture;
    END IF;
END $$"""
