"""Finds classes."""

import importlib


def class_import_from_path(path_to_class):
    module, _, name = path_to_class.rpartition(".")
    return getattr(importlib.import_module(module), name)
