"""What follows an edit of a rule: triggers that write its history, the view `rule_status`, and the rights of each user."""

from lab.rulestore.tables import PUBLICATION, RULES

_KEEP_RULE = "a rule is not deleted: UPDATE rules SET disabled = true; its history stays"
_KEEP_ID = "rule_id never changes: disable the rule and insert another"

_SQLITE_ROW = """json_object('rule_id', NEW.rule_id, 'rule_state', NEW.rule_state,
    'grouping_key_names', json(NEW.grouping_key_names), 'filter', json(NEW.filter),
    'aggregate_field_name', NEW.aggregate_field_name, 'aggregator_function_type', NEW.aggregator_function_type,
    'unique_fields', json(NEW.unique_fields), 'limit_operator_type', NEW.limit_operator_type,
    'limit_value', NEW.limit_value, 'window_seconds', NEW.window_seconds, 'action', NEW.action,
    'ttl_seconds', NEW.ttl_seconds, 'when_condition', NEW.when_condition,
    'severity', NEW.severity, 'title', NEW.title, 'labels', json(NEW.labels),
    'where_condition', NEW.where_condition, 'exclude_current', json(iif(NEW.exclude_current, 'true', iif(NEW.exclude_current = 0, 'false', NULL))),
    'limit_of', json(NEW.limit_of), 'and_conditions', json(NEW.and_conditions), 'or_conditions', json(NEW.or_conditions),
    'at_most', json(NEW.at_most), 'absence', json(iif(NEW.absence, 'true', iif(NEW.absence = 0, 'false', NULL))),
    'event_fields', json(NEW.event_fields), 'filter_condition', NEW.filter_condition,
    'disabled', json(iif(NEW.disabled, 'true', 'false')))"""
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
            INSERT INTO public.rule_changes (rule_id, changed_at, changed_by, rule)
            VALUES (NEW.rule_id, clock_timestamp(), NEW.changed_by, to_jsonb(NEW) - 'changed_by');
        END IF;
        RETURN NULL;
    END $$""",
    "CREATE TRIGGER rules_checked BEFORE INSERT OR UPDATE ON rules FOR EACH ROW EXECUTE FUNCTION lab_check_rule()",
    "CREATE TRIGGER rules_changed AFTER INSERT OR UPDATE ON rules FOR EACH ROW EXECUTE FUNCTION lab_record_change()",
    "CREATE TRIGGER rules_kept BEFORE DELETE OR TRUNCATE ON rules FOR EACH STATEMENT EXECUTE FUNCTION lab_keep_rules()",
    f"CREATE PUBLICATION {PUBLICATION} FOR TABLE rule_changes WITH (publish = 'insert')",
)
STATUS_VIEW = """CREATE VIEW rule_status AS
    SELECT rules.*, answers.version AS version_in_force,
        CASE newest.change_id WHEN answers.refused_change THEN 'refused: ' || answers.reason
            WHEN answers.accepted_change THEN CASE WHEN answers.version IS NULL THEN 'removed' ELSE 'in force' END
            ELSE 'waiting' END AS status
    FROM rules
    JOIN (SELECT rule_id, max(change_id) AS change_id FROM rule_changes GROUP BY rule_id) AS newest
        ON newest.rule_id = rules.rule_id
    LEFT JOIN rule_answers AS answers ON answers.rule_id = rules.rule_id"""
GRANTS = """DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'reader') THEN
        GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'analyst') THEN
        GRANT SELECT ON ALL TABLES IN SCHEMA public TO analyst;
        GRANT INSERT, UPDATE ON rules TO analyst;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'capture') THEN
        GRANT SELECT ON ALL TABLES IN SCHEMA public TO capture;
        GRANT INSERT, UPDATE, DELETE ON rule_answers, rule_captures TO capture;
        GRANT UPDATE ON rule_store TO capture;
    END IF;
END $$"""
