"""A query with a fixed key cannot take another one, and does not always notice."""

import pytest
from pyspark.errors import StreamingQueryException

from lab.contrast.fixedkey import plan_steps_with_keys, run_and_list_changes, totals_by_key


@pytest.mark.slow
def test_another_key_of_the_same_type_takes_over_the_totals_of_the_old_one(spark, tmp_path):
    spark.conf.set("spark.sql.shuffle.partitions", 1)
    events, checkpoint = tmp_path / "events", tmp_path / "checkpoint"
    events.mkdir()
    (events / "1.json").write_text(
        '{"transactionId": 1, "payeeId": 25, "beneficiaryId": 12, "paymentAmount": 70}'
    )
    by_payee = totals_by_key(spark, events, ["payeeId"])
    assert run_and_list_changes(by_payee, checkpoint) == ["payeeId=25: 70"]
    assert run_and_list_changes(by_payee, checkpoint) == []
    (events / "2.json").write_text(
        '{"transactionId": 2, "payeeId": 7, "beneficiaryId": 25, "paymentAmount": 1}'
    )
    with pytest.raises(StreamingQueryException, match="STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"):
        run_and_list_changes(totals_by_key(spark, events, ["payeeId", "beneficiaryId"]), checkpoint)
    assert run_and_list_changes(totals_by_key(spark, events, ["beneficiaryId"]), checkpoint) == [
        "beneficiaryId=25: 71"
    ]


def test_the_plan_names_the_key_in_its_shuffle_and_its_state(spark, tmp_path):
    steps = plan_steps_with_keys(totals_by_key(spark, tmp_path, ["beneficiaryId"]))
    assert [step.split(" ")[0] for step in steps] == ["StateStoreSave", "StateStoreRestore", "Exchange"]
    assert all("beneficiaryId" in step and "payeeId" not in step for step in steps)
