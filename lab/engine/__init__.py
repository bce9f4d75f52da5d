"""The engine: decode → route → evaluate on Spark Structured Streaming. Read `pipeline.py` first."""


def compile_kernels() -> None:
    """Has Numba compile the window loop into its cache, so that the first micro-batch need not wait for it."""
    from lab.engine.settings import Settings
    from lab.engine.stages import Stages

    rule = b"%d,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)"
    with Stages(Settings()) as stages:
        for number in (1, 2):
            stages.batch(
                [("control", rule % number), ("event", b"%d,2013-01-01 00:00:00,25,12,CSH,51" % number)]
            )
            stages.lose_memory()
