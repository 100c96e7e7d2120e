"""No test fails because a machine is slow: hypothesis would, at 200 ms an example, by default."""

from hypothesis import settings

settings.register_profile("levelhead", deadline=None)
settings.load_profile("levelhead")
