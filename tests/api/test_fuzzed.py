"""The API asked by machine what its OpenAPI document allows, and what it does not: answers are what it says."""

from __future__ import annotations

import fuzz_http
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance
from view_helpers import ShownFleet, change, dictionary, notice, recurring, shown, state_record

from service.api.openapi import document

# JSON Schema cannot say all: to it 3.0 is a whole number, and a name may have any characters.
NOT_TAKEN = {"postMerge", "postName", "postReadings"}
# A stream has no end, and metrics are not JSON.
LEFT_OUT = ["getStream", "getMetrics"]
QUICK = settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
THOROUGH = settings(QUICK, max_examples=300)


@schemathesis.serializer("application/x-ndjson")
def as_lines(_context, value):
    return str(value).encode(errors="replace")


schema = schemathesis.openapi.from_dict(document(has_view=True)).exclude(operation_id=LEFT_OUT)


@pytest.fixture(scope="module")
def address():
    fleet = ShownFleet()
    for name in ("a", "b/c", "ü", "x/history"):
        fleet.take(state_record(name), change(name), notice(name))
    fleet.take(recurring("r"), dictionary("r"))
    with shown(fleet, body_bytes=100_000) as port:
        yield f"http://127.0.0.1:{port}"


def validate(case, address):
    is_narrow = case.operation.definition.raw.get("operationId") in NOT_TAKEN
    case.call_and_validate(base_url=address, excluded_checks=[positive_data_acceptance] if is_narrow else [])


@schema.parametrize()
@QUICK
def test_every_answer_is_what_the_document_says(case, address):
    validate(case, address)


@pytest.mark.long
@schema.parametrize()
@THOROUGH
def test_many_answers_are_what_the_document_says(case, address):
    validate(case, address)


def test_nothing_that_is_sent_breaks_the_service(tmp_path):
    """``python tests/fuzz_http.py`` does this for longer, and with other seeds."""
    statuses = fuzz_http.run(tmp_path, seed=2, seconds=6.0)
    assert {"200", "400", "403", "404", "405", "415"} <= set(statuses)
