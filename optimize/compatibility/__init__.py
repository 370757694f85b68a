"""Compatibility of actions and situations: a volume learned from simulations, and queries of it.

Source: Shen, chapter 6. ``question`` defines the yes-or-no question, ``paths`` and ``refinement``
sample where it is asked, ``volume`` learns, ``query`` answers queries, ``run`` saves all of that in
a folder, ``page`` shows it.
"""
