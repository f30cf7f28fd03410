"""Inference as data arrives.

A reading passes ``detector`` (or ``fleet``, for many detectors), ``intake`` (units, repeats), an engine, ``alarms``
(changes) and ``episodes`` (what is unusual). They write the events.

* ``engine`` defines what an engine is, and ``build`` chooses the one for a model. ``renewal`` is the exact run-length
  filter of models in which no state returns; ``particles`` has the weighted chains of models whose states return and
  whose priors are given; ``regimes`` is ``model="recurring"``, which needs none.
* ``alarms`` is the policy for changes. ``rarity``, with ``histogram``, ``week`` and ``episodes``, finds what is unusual
  for a stream.
* ``snapshot`` is the format of snapshots, ``validation`` checks their arrays, ``saved_detector`` writes and reads those
  of detectors.
"""
