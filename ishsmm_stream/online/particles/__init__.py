"""The engine of models with given priors whose states return: weighted chains.

``engine`` puts it together. ``chains`` are the arrays. ``particle_filter`` continues them by an observation, with
``dwell_hazards``, ``prepared``, ``resampling``, ``transitions``, ``births`` and ``counter_random``. ``beliefs``
summarises the chains, and ``names`` gives a state the same number in all of them.
"""
