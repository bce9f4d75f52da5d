BEGIN TRANSACTION;
CREATE TABLE rule_answers (
	rule_id INTEGER NOT NULL, 
	accepted_change INTEGER, 
	version INTEGER, 
	refused_change INTEGER, 
	reason TEXT, 
	PRIMARY KEY (rule_id)
);
CREATE TABLE rule_captures (
	place TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	PRIMARY KEY (place)
);
CREATE TABLE rule_changes (
	change_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	rule_id INTEGER NOT NULL, 
	changed_at DATETIME NOT NULL, 
	changed_by VARCHAR(200) NOT NULL, 
	rule JSON NOT NULL
);
INSERT INTO "rule_changes" VALUES(1,1,'2026-11-23 13:58:52.863000','ann','{"rule_id":1,"rule_state":"ACTIVE","grouping_key_names":["payeeId"],"filter":null,"aggregate_field_name":"paymentAmount","aggregator_function_type":"SUM","unique_fields":null,"limit_operator_type":"GREATER","limit_value":"50.1","window_seconds":1200,"action":null,"ttl_seconds":null,"disabled":false}');
INSERT INTO "rule_changes" VALUES(2,1,'2026-11-23 13:58:52.872000','bob','{"rule_id":1,"rule_state":"PAUSE","grouping_key_names":["payeeId"],"filter":null,"aggregate_field_name":"paymentAmount","aggregator_function_type":"SUM","unique_fields":null,"limit_operator_type":"GREATER","limit_value":"50.1","window_seconds":1200,"action":null,"ttl_seconds":null,"disabled":false}');
CREATE TABLE rule_store (
	identity VARCHAR(20) NOT NULL, 
	PRIMARY KEY (identity)
);
INSERT INTO "rule_store" VALUES('a8b9877c');
CREATE TABLE rules (
	rule_id INTEGER NOT NULL, 
	rule_state VARCHAR(20) DEFAULT 'ACTIVE' NOT NULL, 
	grouping_key_names JSON DEFAULT '[]' NOT NULL, 
	filter JSON, 
	aggregate_field_name VARCHAR(200), 
	aggregator_function_type VARCHAR(20) NOT NULL, 
	unique_fields JSON, 
	limit_operator_type VARCHAR(20) NOT NULL, 
	limit_value TEXT NOT NULL, 
	window_seconds INTEGER NOT NULL, 
	action VARCHAR(20), 
	ttl_seconds INTEGER, 
	disabled BOOLEAN DEFAULT 0 NOT NULL, 
	changed_by VARCHAR(200) DEFAULT 'unknown' NOT NULL, 
	PRIMARY KEY (rule_id), 
	CONSTRAINT "disabled is true or false" CHECK (disabled IN (0, 1)), 
	CONSTRAINT "rule_id is a positive number" CHECK (rule_id > 0), 
	CONSTRAINT "rule_state is ACTIVE or PAUSE" CHECK (rule_state IN ('ACTIVE', 'PAUSE')), 
	CONSTRAINT "aggregator_function_type is SUM, COUNT, or another function" CHECK (aggregator_function_type IN ('SUM', 'AVG', 'MIN', 'MAX', 'VARIANCE', 'STDDEV', 'COUNT', 'COUNT_WITH_RESET', 'UNIQUE_COUNT')), 
	CONSTRAINT "limit_operator_type is GREATER, LESS_EQUAL, or another name" CHECK (limit_operator_type IN ('EQUAL', 'NOT_EQUAL', 'GREATER', 'GREATER_EQUAL', 'LESS', 'LESS_EQUAL')), 
	CONSTRAINT "window_seconds is 1 to 316224000" CHECK (window_seconds IS NULL OR window_seconds BETWEEN 1 AND 316224000), 
	CONSTRAINT "aggregate_field_name is needed by all functions but counts" CHECK ((aggregator_function_type NOT IN ('SUM', 'AVG', 'MIN', 'MAX', 'VARIANCE', 'STDDEV')) OR aggregate_field_name IS NOT NULL), 
	CONSTRAINT "action is block_login, hold_payment, notify or null" CHECK (action IN ('block_login', 'hold_payment', 'notify')), 
	CONSTRAINT "action and ttl_seconds need each other" CHECK ((action IS NULL) = (ttl_seconds IS NULL)), 
	CONSTRAINT "ttl_seconds is 1 to 316224000" CHECK (ttl_seconds IS NULL OR ttl_seconds BETWEEN 1 AND 316224000), 
	CONSTRAINT "changed_by is somebody" CHECK (length(changed_by) > 0), 
	CONSTRAINT "rule_id, window_seconds and ttl_seconds are whole numbers" CHECK (typeof(rule_id) = 'integer'
        AND typeof(window_seconds) = 'integer' AND typeof(ttl_seconds) IN ('integer', 'null')), 
	CONSTRAINT "grouping_key_names is a list of texts" CHECK (json_valid(grouping_key_names) AND json_type(grouping_key_names) = 'array'), 
	CONSTRAINT "unique_fields is a list of texts" CHECK (unique_fields IS NULL OR json_valid(unique_fields) AND json_type(unique_fields) = 'array'), 
	CONSTRAINT "unique_fields is needed by UNIQUE_COUNT" CHECK (aggregator_function_type <> 'UNIQUE_COUNT'
        OR unique_fields IS NOT NULL AND json_array_length(unique_fields) > 0), 
	CONSTRAINT "grouping_key_names is needed by all actions but notify" CHECK (action IS NULL OR action = 'notify' OR json_array_length(grouping_key_names) > 0), 
	CONSTRAINT "filter is an object without nulls of at most 50000 characters" CHECK (filter IS NULL OR json_valid(filter) AND json_type(filter) = 'object'
        AND length(filter) <= 50000), 
	CONSTRAINT "limit_value is below 1e24 and has at most 12 decimal places" CHECK (limit_value GLOB '*[0-9]' AND limit_value GLOB '[-0-9]*' AND ltrim(limit_value, '-') GLOB '[0-9]*'
        AND limit_value NOT GLOB '*[^-0-9.]*' AND limit_value NOT GLOB '?*-*' AND limit_value NOT GLOB '*.*.*'
        AND length(limit_value) - instr(limit_value || '.', '.') <= 12
        AND instr(ltrim(limit_value, '-') || '.', '.') <= 25)
);
INSERT INTO "rules" VALUES(1,'PAUSE','["payeeId"]',NULL,'paymentAmount','SUM',NULL,'GREATER','50.1',1200,NULL,NULL,0,'bob');
CREATE INDEX ix_rule_changes_rule_id ON rule_changes (rule_id);
CREATE TRIGGER rules_inserted AFTER INSERT ON rules BEGIN INSERT INTO rule_changes (rule_id, changed_at, changed_by, rule)
    VALUES (NEW.rule_id, strftime('%Y-%m-%d %H:%M:%f000', 'now'), NEW.changed_by, json_object('rule_id', NEW.rule_id, 'rule_state', NEW.rule_state,
    'grouping_key_names', json(NEW.grouping_key_names), 'filter', json(NEW.filter),
    'aggregate_field_name', NEW.aggregate_field_name, 'aggregator_function_type', NEW.aggregator_function_type,
    'unique_fields', json(NEW.unique_fields), 'limit_operator_type', NEW.limit_operator_type,
    'limit_value', NEW.limit_value, 'window_seconds', NEW.window_seconds, 'action', NEW.action,
    'ttl_seconds', NEW.ttl_seconds, 'disabled', json(iif(NEW.disabled, 'true', 'false')))); END;
CREATE TRIGGER rules_updated AFTER UPDATE ON rules WHEN NEW.rule_state IS NOT OLD.rule_state OR NEW.grouping_key_names IS NOT OLD.grouping_key_names OR NEW.filter IS NOT OLD.filter OR NEW.aggregate_field_name IS NOT OLD.aggregate_field_name OR NEW.aggregator_function_type IS NOT OLD.aggregator_function_type OR NEW.unique_fields IS NOT OLD.unique_fields OR NEW.limit_operator_type IS NOT OLD.limit_operator_type OR NEW.limit_value IS NOT OLD.limit_value OR NEW.window_seconds IS NOT OLD.window_seconds OR NEW.action IS NOT OLD.action OR NEW.ttl_seconds IS NOT OLD.ttl_seconds OR NEW.disabled IS NOT OLD.disabled BEGIN INSERT INTO rule_changes (rule_id, changed_at, changed_by, rule)
    VALUES (NEW.rule_id, strftime('%Y-%m-%d %H:%M:%f000', 'now'), NEW.changed_by, json_object('rule_id', NEW.rule_id, 'rule_state', NEW.rule_state,
    'grouping_key_names', json(NEW.grouping_key_names), 'filter', json(NEW.filter),
    'aggregate_field_name', NEW.aggregate_field_name, 'aggregator_function_type', NEW.aggregator_function_type,
    'unique_fields', json(NEW.unique_fields), 'limit_operator_type', NEW.limit_operator_type,
    'limit_value', NEW.limit_value, 'window_seconds', NEW.window_seconds, 'action', NEW.action,
    'ttl_seconds', NEW.ttl_seconds, 'disabled', json(iif(NEW.disabled, 'true', 'false')))); END;
CREATE TRIGGER rules_kept BEFORE DELETE ON rules BEGIN SELECT RAISE(ABORT, 'a rule is not deleted: UPDATE rules SET disabled = true; its history stays'); END;
CREATE TRIGGER rules_same BEFORE UPDATE OF rule_id ON rules WHEN NEW.rule_id IS NOT OLD.rule_id
    BEGIN SELECT RAISE(ABORT, 'rule_id never changes: disable the rule and insert another'); END;
CREATE VIEW rule_status AS
    SELECT rules.*, answers.version AS version_in_force,
        CASE newest.change_id WHEN answers.refused_change THEN 'refused: ' || answers.reason
            WHEN answers.accepted_change THEN CASE WHEN answers.version IS NULL THEN 'removed' ELSE 'in force' END
            ELSE 'waiting' END AS status
    FROM rules
    JOIN (SELECT rule_id, max(change_id) AS change_id FROM rule_changes GROUP BY rule_id) AS newest
        ON newest.rule_id = rules.rule_id
    LEFT JOIN rule_answers AS answers ON answers.rule_id = rules.rule_id;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('rule_changes',2);
COMMIT;
