"""A stand-in for kale: its module names and the surface that taskvisor uses, and nothing more."""
