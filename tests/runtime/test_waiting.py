"""A thread that waits for others takes nobody's place, and is what it was before when the call is over."""

import os
from collections.abc import Iterator

import pytest

from plica.runtime.waiting import batch_scheduling

pytestmark = pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="policies of threads are Linux's")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    policy = os.sched_getscheduler(0)
    yield
    os.sched_setscheduler(0, policy, os.sched_param(0))


def test_the_policy_of_a_thread_changes_for_a_call() -> None:
    found = []

    def call() -> None:
        with batch_scheduling():
            found.append(os.sched_getscheduler(0))
            raise KeyError

    with pytest.raises(KeyError):
        call()
    assert found == [os.SCHED_BATCH]
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_a_policy_that_somebody_chose_stays() -> None:
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    with batch_scheduling():
        assert os.sched_getscheduler(0) == os.SCHED_BATCH
    assert os.sched_getscheduler(0) == os.SCHED_BATCH


def test_sandboxes_that_forbid_it_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError

    with monkeypatch.context() as patched:
        patched.setattr(os, "sched_setscheduler", refused)
        with batch_scheduling():
            assert os.sched_getscheduler(0) == os.SCHED_OTHER
