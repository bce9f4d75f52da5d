"""A model solution of the engine that learners build, lesson by lesson: what `lab.check_engine` must find right."""

import json
import zlib

FIELDS = {"payeeId", "beneficiaryId", "paymentType"}
LATE_MS = 5 * 60_000


def route_of(rule):  # lessons 1 and 8
    return json.dumps([sorted(rule["groupingKeyNames"]), rule.get("filter", {})])


def copies(event, rules):
    found = []
    for route in dict.fromkeys(map(route_of, rules.values())):
        keys, wanted = json.loads(route)
        if all(event[name] == value for name, value in wanted.items()):
            found.append((route, {name: event[name] for name in keys}))
    return found


def is_right(rule):  # lesson 2
    return (
        isinstance(rule.get("limit"), (int, float))
        and rule.get("windowMinutes", 0) > 0
        and set(rule.get("groupingKeyNames", ["?"])) <= FIELDS
    )


def change(rules, message):
    rule_id, state = message["ruleId"], message["ruleState"]
    if state == "ACTIVE":
        if is_right(message):
            rules[rule_id] = message
        return is_right(message)
    if rule_id not in rules:
        return False
    if state == "DELETE":
        del rules[rule_id]
    else:
        rules[rule_id] = rules[rule_id] | {"ruleState": state}
    return True


def key_group(group):  # lesson 5
    return zlib.crc32(json.dumps(group, sort_keys=True).encode()) % 16


class Engine:  # lesson 3
    def __init__(self, owned=range(16), saved=()):
        self.rules, self.stores, self.owned = {}, {}, owned
        for one in saved:
            self.rules = {int(rule_id): rule for rule_id, rule in one["rules"].items()}
            for route, group, events in one["stores"]:
                if key_group(group) in owned:
                    self.stores[route, json.dumps(group)] = events

    def save(self):
        stores = [(route, json.loads(group), events) for (route, group), events in self.stores.items()]
        return {"rules": self.rules, "stores": stores}

    def stored(self):
        return sum(map(len, self.stores.values()))

    def take(self, entry):
        if "ruleId" in entry:
            change(self.rules, entry)
            routes = set(map(route_of, self.rules.values()))
            self.stores = {key: events for key, events in self.stores.items() if key[0] in routes}
            return []
        alerts = []
        for route, group in copies(entry, self.rules):
            if key_group(group) in self.owned:
                alerts += self.evaluate(route, json.dumps(group), entry)
        return alerts

    def evaluate(self, route, group, event):
        rules = [rule for rule in self.rules.values() if route_of(rule) == route]
        events = self.stores.setdefault((route, group), [])
        new = [event["transactionId"], event["eventTime"], event["paymentAmount"]]
        if new in events:
            return []
        events.append(new)
        widest = max(rule["windowMinutes"] for rule in rules) * 60_000  # lesson 4
        oldest = max(time for _, time, _ in events) - widest - LATE_MS
        events[:] = [each for each in events if each[1] >= oldest]
        alerts = []
        for rule in rules:
            begin = new[1] - rule["windowMinutes"] * 60_000
            total = sum(amount for _, time, amount in events if begin <= time <= new[1])
            if rule["ruleState"] == "ACTIVE" and total > rule["limit"]:
                alerts.append((rule["ruleId"], new[0], total))
        return alerts


def run(log, disk):  # lessons 7 and 9
    done = json.loads(disk.read("state") or '{"cut": 0, "end": 0, "engine": null}')
    engine = Engine(saved=[done["engine"]] if done["engine"] else [])
    cut, begin = done["cut"], done["end"]
    while begin < len(log):
        cut += 1
        planned = json.loads(disk.read("cut") or '{"cut": 0}')
        if planned["cut"] != cut:
            planned = {"cut": cut, "end": min(begin + 10, len(log))}
            disk.write("cut", json.dumps(planned))
        end = planned["end"]
        alerts = [alert for entry in log[begin:end] for alert in engine.take(entry)]
        disk.deliver(cut, alerts)
        disk.write("state", json.dumps({"cut": cut, "end": end, "engine": engine.save()}))
        begin = end
