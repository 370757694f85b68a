"""Which actions go with which situations: a volume learned from simulations, and asked.

Source: Shen, chapter 6. ``question`` says what is asked, ``paths`` and ``refinement`` where it is
asked, ``volume`` what is learned, ``query`` what a user wants to know of it, ``run`` keeps all of
that in a folder, ``page`` shows it.
"""
