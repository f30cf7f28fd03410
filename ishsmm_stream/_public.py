"""The public names, which ``ishsmm_stream`` imports from here when one of them is first used."""

from ishsmm_stream import datasets
from ishsmm_stream._jit import owning_kernel as kernel
from ishsmm_stream.batch.chain import StateLimitError
from ishsmm_stream.batch.exact import ExactPosterior, exact_posterior
from ishsmm_stream.batch.posterior import ConvergenceWarning, Posterior, Segmentation
from ishsmm_stream.batch.sample import fit, sample
from ishsmm_stream.model import durations, emissions, priors, topology
from ishsmm_stream.model.generate import Generated, generate
from ishsmm_stream.model.presets import (
    Model,
    bayesian_hmm,
    bayesian_hsmm,
    hdp_hmm,
    hdp_hsmm,
    ied,
    ilr,
    recurring,
    sticky_hdp_hmm,
    structured,
)
from ishsmm_stream.online.alarms import AlarmPolicy
from ishsmm_stream.online.detector import OnlineDetector
from ishsmm_stream.online.fleet import update_fleet, update_fleet_to_event
from ishsmm_stream.online.results import (
    Alarm,
    AnnouncedChange,
    ChangePoint,
    Episode,
    Event,
    Forecast,
    KnownState,
    NextState,
    Rarity,
    StateEstimate,
    Transition,
)
from ishsmm_stream.online.season import SeasonalProfile
from ishsmm_stream.online.snapshot import SnapshotError
from ishsmm_stream.online.week import hours_of_week

__all__ = [
    "Alarm",
    "AlarmPolicy",
    "AnnouncedChange",
    "ChangePoint",
    "ConvergenceWarning",
    "Episode",
    "Event",
    "ExactPosterior",
    "Forecast",
    "Generated",
    "KnownState",
    "Model",
    "NextState",
    "OnlineDetector",
    "Posterior",
    "Rarity",
    "SeasonalProfile",
    "Segmentation",
    "SnapshotError",
    "StateEstimate",
    "StateLimitError",
    "Transition",
    "bayesian_hmm",
    "bayesian_hsmm",
    "datasets",
    "durations",
    "emissions",
    "exact_posterior",
    "fit",
    "generate",
    "hdp_hmm",
    "hdp_hsmm",
    "hours_of_week",
    "ied",
    "ilr",
    "kernel",
    "priors",
    "recurring",
    "sample",
    "sticky_hdp_hmm",
    "structured",
    "topology",
    "update_fleet",
    "update_fleet_to_event",
]
