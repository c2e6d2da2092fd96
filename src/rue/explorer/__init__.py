"""One page in which a policy is played step by step."""

from rue.explorer.page import explorer_page

__all__ = ["explorer_page"]
