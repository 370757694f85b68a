"""Views of a motion: a page that plays offline, a film strip, plots."""

from jaxsim.viewer.filmstrip import write_filmstrip
from jaxsim.viewer.page import page_text, read_page, write_page
from jaxsim.viewer.plots import write_plots

__all__ = ["page_text", "read_page", "write_filmstrip", "write_page", "write_plots"]
