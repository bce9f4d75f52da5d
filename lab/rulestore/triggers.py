"""What follows an edit of a rule: triggers that write its history, the view `rule_status`, and the rights of each user."""

from sqlalchemy import JSON, Boolean, Column

from lab.rulestore.tables import PUBLICATION, RULES

_KEEP_RULE = "a rule is not deleted: UPDATE rules SET disabled = true; its history stays"
_KEEP_ID = "rule_id never changes: disable the rule and insert another"


def _in_json(column: Column) -> str:
    new = f"NEW.{column.name}"
    if isinstance(column.type, Boolean):
        new = f"json(iif({new}, 'true', iif({new} = 0, 'false', NULL)))"
    return f"'{column.name}', {f'json({new})' if isinstance(column.type, JSON) else new}"


_SQLITE_ROW = (
    f"json_object({', '.join(_in_json(column) for column in RULES.columns if column.name != 'changed_by')})"
)
_SQLITE_RECORD = f"""BEGIN INSERT INTO rule_changes (rule_id, changed_at, changed_by, rule)
    VALUES (NEW.rule_id, strftime('%%Y-%%m-%%d %%H:%%M:%%f000', 'now'), NEW.changed_by, {_SQLITE_ROW}); END"""
_SQLITE_COLUMNS = [column.name for column in RULES.columns if column.name not in ("rule_id", "changed_by")]
_SQLITE_CHANGED = " OR ".join(f"NEW.{name} IS NOT OLD.{name}" for name in _SQLITE_COLUMNS)
SQLITE_TRIGGERS = (
    f"CREATE TRIGGER rules_inserted AFTER INSERT ON rules {_SQLITE_RECORD}",
    f"CREATE TRIGGER rules_updated AFTER UPDATE ON rules WHEN {_SQLITE_CHANGED} {_SQLITE_RECORD}",
    f"CREATE TRIGGER rules_kept BEFORE DELETE ON rules BEGIN SELECT RAISE(ABORT, '{_KEEP_RULE}'); END",
    f"""CREATE TRIGGER rules_same BEFORE UPDATE OF rule_id ON rules WHEN NEW.rule_id IS NOT OLD.rule_id
    BEGIN SELECT RAISE(ABORT, '{_KEEP_ID}'); END""",
)
# the trigger that writes the history runs as its owner: editors need no right to write it, and cannot
POSTGRESQL_TRIGGERS = (
    f"""CREATE FUNCTION lab_check_rule() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF TG_OP = 'UPDATE' AND NEW.rule_id <> OLD.rule_id THEN RAISE EXCEPTION '{_KEEP_ID}'; END IF;
        NEW.changed_by := session_user;
        RETURN NEW;
    END $$""",
    f"""CREATE FUNCTION lab_keep_rules() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE EXCEPTION '{_KEEP_RULE}';
    END $$""",
    """CREATE FUNCTION lab_record_change() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$ BEGIN
        IF TG_OP = 'INSERT' OR to_jsonb(NEW) - 'changed_by' <> to_jsonb(OLD) - 'changed_by' THEN
            IF NOT (SELECT two_persons FROM public.rule_store) THEN
                DELETE FROM public.rule_proposals WHERE rule_id = NEW.rule_id;
                INSERT INTO public.rule_changes (rule_id, changed_at, changed_by, rule)
                VALUES (NEW.rule_id, clock_timestamp(), NEW.changed_by, to_jsonb(NEW) - 'changed_by');
            ELSIF coalesce((SELECT rule FROM public.rule_changes WHERE rule_id = NEW.rule_id
                            ORDER BY change_id DESC LIMIT 1) = to_jsonb(NEW) - 'changed_by', NEW.disabled) THEN
                DELETE FROM public.rule_proposals WHERE rule_id = NEW.rule_id;  -- all is as approved: withdrawn
            ELSE
                INSERT INTO public.rule_proposals (rule_id, proposed_at, proposed_by, rule)
                VALUES (NEW.rule_id, clock_timestamp(), NEW.changed_by, to_jsonb(NEW) - 'changed_by');
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
        SELECT max(proposal_id) INTO newest FROM public.rule_proposals WHERE rule_id = proposed.rule_id;
        IF newest <> number THEN
            RAISE EXCEPTION USING MESSAGE = 'proposal ' || number || ' is outdated: the newest of rule '
                || proposed.rule_id || ' is proposal ' || newest;
        END IF;
        IF EXISTS (SELECT FROM public.rule_proposals WHERE rule_id = proposed.rule_id AND proposed_by = session_user) THEN
            RAISE EXCEPTION USING MESSAGE = 'proposal ' || number || ' contains edits by ' || session_user
                || ': another user must approve it';
        END IF;
        INSERT INTO public.rule_changes (rule_id, changed_at, changed_by, rule, approved_by, approved_at)
        VALUES (proposed.rule_id, proposed.proposed_at, proposed.proposed_by, proposed.rule, session_user, clock_timestamp())
        RETURNING change_id INTO change;
        DELETE FROM public.rule_proposals WHERE rule_id = proposed.rule_id AND proposal_id <= number;
        RETURN change;
    END $$""",
    "REVOKE EXECUTE ON FUNCTION lab_approve(bigint) FROM PUBLIC",
    "CREATE TRIGGER rules_checked BEFORE INSERT OR UPDATE ON rules FOR EACH ROW EXECUTE FUNCTION lab_check_rule()",
    "CREATE TRIGGER rules_changed AFTER INSERT OR UPDATE ON rules FOR EACH ROW EXECUTE FUNCTION lab_record_change()",
    "CREATE TRIGGER rules_kept BEFORE DELETE OR TRUNCATE ON rules FOR EACH STATEMENT EXECUTE FUNCTION lab_keep_rules()",
    f"CREATE PUBLICATION {PUBLICATION} FOR TABLE rule_changes WITH (publish = 'insert')",
)
STATUS_VIEW = """CREATE VIEW rule_status AS
    SELECT rules.*, answers.version AS version_in_force,
        CASE WHEN proposals.proposal_id IS NOT NULL THEN 'waits for approval: proposal ' || proposals.proposal_id
            WHEN newest.change_id IS NULL THEN 'removed'
            ELSE CASE newest.change_id WHEN answers.refused_change THEN 'refused: ' || answers.reason
            WHEN answers.accepted_change THEN CASE WHEN answers.version IS NULL THEN 'removed' ELSE 'in force' END
            ELSE 'waiting' END END AS status
    FROM rules
    LEFT JOIN (SELECT rule_id, max(change_id) AS change_id FROM rule_changes GROUP BY rule_id) AS newest
        ON newest.rule_id = rules.rule_id
    LEFT JOIN (SELECT rule_id, max(proposal_id) AS proposal_id FROM rule_proposals GROUP BY rule_id) AS proposals
        ON proposals.rule_id = rules.rule_id
    LEFT JOIN rule_answers AS answers ON answers.rule_id = rules.rule_id"""
GRANTS = """DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'reader') THEN
        GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'analyst') THEN
        GRANT SELECT ON ALL TABLES IN SCHEMA public TO analyst;
        GRANT INSERT, UPDATE ON rules TO analyst;
        GRANT EXECUTE ON FUNCTION lab_approve(bigint) TO analyst;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'capture') THEN
        GRANT SELECT ON ALL TABLES IN SCHEMA public TO capture;
        GRANT INSERT, UPDATE, DELETE ON rule_answers, rule_captures TO capture;
        GRANT UPDATE (identity) ON rule_store TO capture;
    END IF;
END $$"""
