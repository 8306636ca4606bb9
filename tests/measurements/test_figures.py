"""A figure meets its bound, does not, or cannot be judged; the table and its JSON say which."""

from __future__ import annotations

import json

import pytest

from bench.figures import Figure, as_json, from_json, not_measured, profiled, row, verdict


@pytest.mark.parametrize(
    ("figure", "judged"),
    [
        (Figure("cpu", 2.4, "s", most=2.4), "met"),
        (Figure("cpu", 2.41, "s", most=2.4), "not met"),
        (Figure("times as fast", 2.8, "×", least=2.8), "met"),
        (Figure("times as fast", 2.79, "×", least=2.8), "not met"),
        (Figure("cpu", 2.4, "s"), ""),
        (not_measured("cpu", "why", most=2.4), "not measured"),
    ],
)
def test_a_figure_is_judged_by_its_bound(figure: Figure, judged: str) -> None:
    assert verdict(figure) == judged


@pytest.mark.parametrize(("loads", "judged"), [((0.1, 0.49), "met"), ((0.1, 0.5), "not judged"), ((), "not judged")])
def test_wall_time_is_judged_only_if_the_load_was_low_before_every_run(loads: tuple[float, ...], judged: str) -> None:
    assert verdict(Figure("wall", 3.0, "×", least=2.8, loads=loads)) == judged


def test_a_busy_machine_does_not_excuse_processor_time() -> None:
    assert verdict(Figure("cpu", 3.0, "s", most=2.8, note="load 12")) == "not met"


def test_a_row_shows_figure_bound_verdict_runs_and_load() -> None:
    figure = Figure("times as fast", 2.5, "×", least=2.8, runs=3, loads=(0.12, 0.2), note="1 s and 2.5 s")
    words = " ".join(row(figure).split())
    assert words == "times as fast 2.50 × ≥ 2.8 × not met 1 s and 2.5 s; median of 3; load 0.12 0.20"


def test_a_row_says_why_it_was_not_measured() -> None:
    words = " ".join(row(not_measured("cpu", "no network", most=0.6)).split())
    assert words == "cpu – ≤ 0.6 not measured no network"


def test_figures_come_back_from_json_as_they_were() -> None:
    figure = Figure("wall", 2.5, "×", least=2.8, runs=3, loads=(0.1,), profile=("a", "b"), section="ingest")
    told = json.loads(json.dumps(as_json(figure)))
    assert (from_json(told), told["verdict"]) == (figure, "not met")


def test_only_what_misses_its_bound_is_profiled() -> None:
    asked = []

    def lines() -> list[str]:
        asked.append("profiled")
        return ["slow.py:1"]

    missed = Figure("cpu", 3, most=2)
    assert profiled(Figure("cpu", 1, most=2), lines, wanted=True).profile == ()
    assert profiled(missed, lines, wanted=False).profile == ()
    assert asked == []
    assert profiled(missed, lines, wanted=True).profile == ("slow.py:1",)


def test_a_profile_that_fails_leaves_the_figure(capsys: pytest.CaptureFixture[str]) -> None:
    missed = Figure("cpu", 3, most=2)
    assert profiled(missed, lambda: [str(1 / 0)], wanted=True) == missed
    assert "no profile of cpu" in capsys.readouterr().err
