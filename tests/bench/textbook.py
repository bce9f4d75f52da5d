"""The textbook processor of `lab.contrast.mapstate` on a sample."""

import tempfile

from pyspark.sql import SparkSession

from lab.contrast import mapstate
from lab.model.rules import parse_message
from lab.model.schema import PAYMENTS
from tests.bench.data import PAYEE, Payments, rule

FIELDS = "transactionId long, eventTime long, payeeId long, beneficiaryId long, paymentAmount decimal(18,2)"


def textbook_rate(spark: SparkSession, payments: Payments) -> float:
    """Events a second of the rule per payee over 24 h, one segment a batch; the first is warm-up."""
    message = parse_message(rule(1, PAYEE, "24h", 70), PAYMENTS)
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    stream = spark.readStream.schema(FIELDS).option("maxFilesPerTrigger", 1)
    alerts = mapstate.alerts(stream.json(str(payments.segments[0].parent)), message.rule, PAYMENTS)
    with tempfile.TemporaryDirectory(prefix="lab-bench-") as checkpoint:
        writer = alerts.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        batches = [progress for progress in query.recentProgress if progress.numInputRows][1:]
    seconds = sum(progress.durationMs["triggerExecution"] for progress in batches) / 1000
    return sum(progress.numInputRows for progress in batches) / seconds
