"""The version, in a place of its own so that the worker can tell it without the whole package."""

VERSION = "0.1.0"
