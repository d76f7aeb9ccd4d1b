"""A stand-in for kale: names, signatures and values of ndkale 2.2.4 as far as tests need them, and nothing else.

`test_kale_surface.py` holds it against `ndkale-surface.json`, which was read from the real package.
"""

import contextlib
import importlib
import os

from kale import default_settings
from standin import take

ENVIRONMENT_VARIABLE = "KALE_SETTINGS_MODULE"


class Settings(object):
    def __init__(self, *args, **kwargs):
        take(self, default_settings)
        with contextlib.suppress(KeyError, ImportError):
            take(self, importlib.import_module(os.environ[ENVIRONMENT_VARIABLE]))
            self.PROPERLY_CONFIGURED = True


settings = Settings()
