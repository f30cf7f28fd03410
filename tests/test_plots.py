"""Pictures: what they draw is checked on posteriors made by hand, which need no sampling."""

import numpy as np
import pytest

import ishsmm_stream as hs
from ishsmm_stream import plots
from ishsmm_stream.batch.chain import Draw


def posterior_of(model, y, *draws):
    """A posterior of draws given as (starts, labels, theta)."""
    made = []
    for i, (starts, labels, theta) in enumerate(draws):
        theta = np.atleast_2d(np.asarray(theta, dtype=float))
        lam = np.full((len(theta), 2), 5.0)
        hyper, none = np.ones(5), np.empty(0, dtype=np.int32)
        made.append(Draw(np.array(starts), np.array(labels), theta, lam, hyper, -float(i), model.emission, none))
    y = np.asarray(y, dtype=float)
    return hs.Posterior(model, y.reshape(len(y), -1), [made])


DWELL = hs.durations.Poisson()
COUNTS = posterior_of(
    hs.ilr(hs.emissions.Poisson(), DWELL),
    [1, 2, np.nan, 1, 9, 8, 11, 9],
    ([0, 4], [0, 1], [[np.log(1.0)], [np.log(9.0)]]),
    ([0, 5], [0, 1], [[np.log(3.0)], [np.log(11.0)]]),
)


def written(figure, path):
    figure.savefig(path)
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    return len(data)


def test_levels_are_averages_over_the_draws():
    mean, low, high = plots._levels(COUNTS)
    np.testing.assert_allclose(mean[:, 0], [2, 2, 2, 2, 6, 10, 10, 10])
    np.testing.assert_allclose(low[:, 0], [1.1] * 4 + [3.3] + [9.1] * 3)
    np.testing.assert_allclose(high[:, 0], [2.9] * 4 + [8.7] + [10.9] * 3)


def test_a_trend_counts_from_the_start_of_its_segment():
    emission = hs.emissions.Autoregressive(order=0, trend=True)
    posterior = posterior_of(
        hs.ilr(emission, DWELL), np.zeros(5), ([0, 3], [0, 1], [[1.0, 0.5, 1.0], [10.0, -1.0, 1.0]])
    )
    np.testing.assert_allclose(plots._levels(posterior)[0][:, 0], [1.0, 1.5, 2.0, 10.0, 9.0])


def test_a_prediction_that_cannot_be_made_is_left_out():
    emission = hs.emissions.Autoregressive(order=1)
    posterior = posterior_of(hs.ilr(emission, DWELL), [1.0, 2.0, np.nan, 4.0, 5.0], ([0], [0], [[0.5, 2.0, 1.0]]))
    np.testing.assert_allclose(plots._levels(posterior)[0][:, 0], [np.nan, 2.5, 4.5, np.nan, 8.5])


def test_probabilities_of_categories_are_averages_over_the_draws():
    model = hs.ilr(hs.emissions.Categorical(1.0, categories=2), DWELL)
    draws = ([0, 2], [0, 1], np.log([[0.9, 0.1], [0.2, 0.8]])), ([0], [0], np.log([[0.5, 0.5]]))
    posterior = posterior_of(model, [0, 0, 1, 1], *draws)
    np.testing.assert_allclose(plots._average_probabilities(posterior)[:, 1], [0.3, 0.3, 0.65, 0.65])


def test_the_panels_show_the_data_the_changes_and_their_number(tmp_path):
    figure = plots.plot_posterior(COUNTS, x=np.arange(1900, 1908), title="counts", y_label="count")
    data, changes, number = (
        next(panel for panel in figure.axes if label in (panel.get_ylabel(), panel.get_title()))
        for label in ("count", "P(change)", "P(change points)")
    )
    drawn = data.collections[0].get_offsets()
    assert drawn.shape == (8, 2)
    assert np.ma.count_masked(drawn[2]) > 0 or np.isnan(np.asarray(drawn[2], dtype=float)).any()  # the missing one
    np.testing.assert_allclose(
        [segment[1] for segment in changes.collections[0].get_segments()], [[1904, 0.5], [1905, 0.5]]
    )
    assert [text.get_text() for text in changes.texts] == ["1904"]
    heights = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in number.patches}
    assert heights[1] == 1.0
    assert written(figure, tmp_path / "a.png") > 20_000


def test_recurring_states_have_colours_and_their_number_is_shown(tmp_path):
    model = hs.ied(hs.emissions.Normal(), DWELL)
    y = np.array([0.0, 0.1, 5.0, 5.1, 0.2, 0.1])
    posterior = posterior_of(model, y, ([0, 2, 4], [0, 1, 0], [[0.0, 1.0, 0.0], [5.0, 1.0, 0.0]]))
    figure = plots.plot_posterior(posterior)
    colours = figure.axes[1].collections[0].get_facecolors()
    assert (colours[[0, 1]] == colours[[4, 5]]).all()
    assert (colours[0] != colours[2]).any()
    assert "P(states)" in [panel.get_title() for panel in figure.axes]
    assert written(figure, tmp_path / "a.png") > 20_000


def test_every_kind_of_series_makes_a_picture(tmp_path):
    channels = hs.emissions.MultivariateNormal((0.0, 0.0), 0.1, 5.0, ((1.0, 0.0), (0.0, 1.0)))
    rng = np.random.default_rng(0)
    normal_theta = [[0.0, 0.0, 1.0, 0.0, 0.0, 1.0], [3.0, 9.0, 1.0, 0.0, 0.0, 1.0]]
    mixed = hs.emissions.Mixed((hs.emissions.Normal(), hs.emissions.Autoregressive()))
    cases = [
        posterior_of(hs.ilr(channels, DWELL), rng.normal(size=(40, 2)), ([0, 20], [0, 1], normal_theta)),
        posterior_of(
            hs.ilr(hs.emissions.Categorical(1.0, categories=3), DWELL), rng.integers(3, size=40),
            ([0, 20], [0, 1], np.log([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])),
        ),
        posterior_of(
            hs.ilr(hs.emissions.Autoregressive(), DWELL), rng.normal(size=40),
            ([0, 20], [0, 1], [[0.0, 0.9, 1.0], [1.0, 0.0, 1.0]]),
        ),
        posterior_of(
            hs.ilr(mixed, DWELL), rng.normal(size=40),
            ([0, 20], [0, 1], [[0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0], [1, 0.0, 0.0, 0.0, 0.0, 0.5, 1.0]]),
        ),
        posterior_of(hs.ilr(hs.emissions.Normal(), DWELL), [1.0], ([0], [0], [[1.0, 1.0, 0.0]])),
    ]  # fmt: skip
    for i, posterior in enumerate(cases):
        figure = plots.plot_posterior(posterior)
        assert len(figure.axes) >= posterior.y.shape[1] + 2
        assert written(figure, tmp_path / f"{i}.png") > 15_000


def test_labels_that_would_overlap_are_left_out():
    places = np.arange(1000.0)
    labels = [str(t) for t in range(1000)]
    points = [plots.ChangePoint(t, probability, t, t) for t, probability in ((100, 0.9), (103, 1.0), (500, 0.6))]
    assert sorted(point.index for point in plots._labelled(points, places, labels)) == [103, 500]


def test_the_exact_posterior_alone_makes_a_picture(tmp_path):
    model = hs.ilr(hs.emissions.Poisson(1.0, 1.0), hs.durations.Poisson(1.0, 100.0))
    coal = hs.datasets.coal_disasters()
    path = tmp_path / "coal.png"
    figure = plots.plot_posterior(hs.exact_posterior(coal.counts, model), x=coal.years, path=path)
    assert path.stat().st_size > 20_000
    (label,) = [text.get_text() for text in figure.axes[0].texts]
    assert label == "1892"


def test_places_may_be_datetimes(tmp_path):
    x = np.datetime64("2024-03-01T00:00") + np.arange(8) * np.timedelta64(1, "h")
    figure = plots.plot_posterior(COUNTS, x=x)
    assert [text.get_text() for text in figure.axes[0].texts] == ["2024-03-01 04:00"]
    assert written(figure, tmp_path / "a.png") > 20_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": [1, 2, 3]}, "x must have one entry an observation, 8"),
        ({"x": [1, 2, 3, 4, 4, 5, 6, 7]}, "x must ascend"),
        ({"y_label": []}, "y_label must be a name"),
    ],
)
def test_what_does_not_fit_the_data_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        plots.plot_posterior(COUNTS, **arguments)


# Streams


def stream_of(values, **settings):
    points = [hs.ChangePoint(4, 1.0, 3, 5), hs.ChangePoint(8, 0.9, 8, 8)]
    alarms = [hs.Alarm(0, 4, 6, "confirmed"), hs.Alarm(1, 7, 7, "retracted"), hs.Alarm(2, 8, 9, "raised")]
    return plots.Stream(np.asarray(values, dtype=float), points, alarms, **settings)


def lines_of(panel, label):
    handles, labels = panel.get_legend_handles_labels()
    return handles[labels.index(label)]


def test_a_stream_is_drawn_with_its_segments_changes_and_alarms(tmp_path):
    figure = plots.plot_streams([stream_of([1, 1, np.nan, 1, 5, 5, 5, 5, 2, 2])], path=tmp_path / "stream.png")
    (panel,) = figure.axes
    means = [line for line in panel.lines if line.get_linewidth() == 1.8]
    assert [(*line.get_xdata(), line.get_ydata()[0]) for line in means] == [(0, 4, 1), (4, 8, 5), (8, 9, 2)]
    bands = [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in panel.patches]
    assert bands == [(3, 5), (8, 8)]
    triangles = [line for line in panel.lines if line.get_marker() == "v"]
    assert [(line.get_xdata()[0], line.get_fillstyle()) for line in triangles] == [
        (6, "full"),
        (7, "none"),
        (9, "full"),
    ]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "change point, 90% interval", "mean of the segment", "alarm", "alarm taken back",
    ]  # fmt: skip
    assert (tmp_path / "stream.png").stat().st_size > 10_000


def test_streams_stand_on_one_axis_of_times_and_what_was_before_the_first_value_is_left_out(tmp_path):
    days = np.datetime64("2026-03-01") + np.arange(10)
    late = stream_of(np.arange(6.0), name="late", labels=["bar"], first=6, x=days[4:])
    both = [stream_of(np.ones((10, 2)), name="pair", labels=["x", "y"], x=days), late]
    figure = plots.plot_streams(both, title="Two", x_label="day")
    assert [panel.get_ylabel() for panel in figure.axes] == ["x", "y", "bar"]
    assert [panel.get_title(loc="left") for panel in figure.axes] == ["pair", "", "late"]
    assert [len(panel.patches) for panel in figure.axes] == [2, 2, 1]  # the change at 4 is before the first value
    assert len({panel.get_xlim() for panel in figure.axes}) == 1
    assert written(figure, tmp_path / "two.png") > 10_000


def test_a_stream_of_many_values_is_drawn_as_ranges_with_gaps(tmp_path):
    values = np.sin(np.arange(100_000) / 5_000.0)
    values[40_000:60_000] = np.nan
    figure = plots.plot_streams([plots.Stream(values, [])])
    assert len(figure.axes[0].collections) == 1
    assert written(figure, tmp_path / "many.png") < 150_000


def test_many_sensors_are_cut_to_eight_panels():
    assert len(plots.plot_streams([stream_of(np.arange(10.0))] * 12).axes) == 8


def test_levels_as_they_were_believed_take_the_place_of_means_and_known_changes_are_marked():
    levels = [plots.StreamLevel(2, [1.0], [0.5]), plots.StreamLevel(6, [5.0], [0.25])]
    figure = plots.plot_streams([stream_of(np.ones(10), levels=levels, known=[4])])
    (panel,) = figure.axes
    believed = lines_of(panel, "level as believed")
    assert believed.get_xydata().tolist() == [[2, 1], [6, 5], [9, 5]]
    assert believed.get_drawstyle() == "steps-post"
    assert lines_of(panel, "known change").get_xdata() == [4]
    assert "mean of the segment" not in panel.get_legend_handles_labels()[1]
