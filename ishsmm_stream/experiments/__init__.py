"""The paper's experiments, one a file, each with its settings from the paper.

An experiment is a module with ``run(progress, quick) -> Outcome``: what was measured, the claims judged by it, and the
figures drawn from it. ``quick`` is a reduced size, for tests.
"""

from __future__ import annotations

# name: (module, summary)
EXPERIMENTS = {
    "ied": ("ishsmm_stream.experiments.ied", "four recurring states with their own durations"),
    "ilr": ("ishsmm_stream.experiments.ilr", "five states, left to right"),
    "coal": ("ishsmm_stream.experiments.coal", "British coal-mining disasters, 1851 to 1962"),
    "morse": ("ishsmm_stream.experiments.morse", "dots and dashes, told apart by their duration only"),
    "telegraph": ("ishsmm_stream.experiments.telegraph", "random telegraph noise of a transistor, simulated"),
    "prior": ("ishsmm_stream.experiments.prior", "what the priors say before any data"),
    "comparison": ("ishsmm_stream.experiments.comparison", "explicit durations against the HDP-HMM and the sticky one"),
}
