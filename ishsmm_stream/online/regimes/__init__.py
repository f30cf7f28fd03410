"""The engine of ``model="recurring"``: states that return, without priors from the user.

``engine`` puts it together. ``chains`` are the arrays, ``filter`` continues them by a reading. ``states`` has the law
of the readings in a state, ``dwells`` that of the length of a visit, ``transitions`` says which state comes next.
``dictionary`` merges, splits and retires states and draws what they share. ``beliefs`` summarises the chains, ``news``
turns them into events and alarms, ``saved`` writes and reads them. ``simulate`` draws streams of the same model.
"""
