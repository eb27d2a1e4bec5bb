"""The dashboard asks for what is declared; the real engine's test asks the engine."""

from support.dashboard import exposed, queries, wanted

from hotset.traces.metric_names import METRICS, PREFIX

SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket",)}


def test_every_metric_is_on_it_and_nothing_else():
    declared = {
        metric.exposed + suffix: set(metric.labels)
        for metric in METRICS
        for suffix in SUFFIXES[metric.kind]
    }
    asked = {k: v for k, v in wanted().items() if k.startswith(PREFIX)}
    assert set(asked) == set(declared)
    for name, labels in asked.items():
        assert labels - {"model_name", "le"} <= declared[name], name


def test_every_query_is_read():
    assert len(queries()) > 20
    for expression, _ in queries():
        assert "vllm:" in expression
        assert expression.count("(") == expression.count(")")


def test_how_a_metrics_page_is_read():
    text = (
        "# HELP a_total x\n# TYPE a_total counter\n"
        'a_total{model_name="m",reason="x"} 1.0\n'
        '# TYPE b histogram\nb_bucket{le="1.0"} 0.0\nb_sum 0.0\n# TYPE c gauge\nc 1\n'
    )
    names, labels = exposed(text)
    assert names == {"a_total", "b_bucket", "b_sum", "b_count", "c"}
    assert labels == {"a_total": {"model_name", "reason"}, "b_bucket": {"le"}}
