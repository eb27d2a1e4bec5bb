"""Trials in a real PostgreSQL server."""

import os

import pytest
from support import postgres
from support.tuning import Fake, merit, plan, search, told

from hotset.policies.errors import PolicyError
from hotset.sim.trial_store import open_study

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def url():
    if postgres.programs() is None:
        missing = "no PostgreSQL under /usr/lib/postgresql: make test installs it"
        assert "CI" not in os.environ, missing
        pytest.skip(missing)
    with postgres.server() as found:
        yield found


def test_interrupted_and_gone_on_with(url):
    asked = plan(trials=20)
    expected = told(search(asked, Fake(merit)))
    with pytest.raises(KeyboardInterrupt):
        search(asked, Fake(merit, interrupt_at=7), url)
    rest = Fake(merit)
    assert told(search(asked, rest, url)) == expected
    assert rest.calls < 20 - 5
    with open_study(url, "test", asked.objectives) as (study, _):
        complete = [t for t in study.get_trials() if t.state.name == "COMPLETE"]
    assert sorted(t.user_attrs["place"] for t in complete) == list(range(20))


def test_one_search_a_database(url):
    asked = plan()
    with (
        open_study(url, "one", asked.objectives),
        pytest.raises(PolicyError, match="another search uses it"),
        open_study(url, "two", asked.objectives),
    ):
        pass
    with open_study(url, "two", asked.objectives) as (study, _):
        assert study.study_name == "two"
