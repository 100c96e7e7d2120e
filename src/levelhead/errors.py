"""Mistakes a user can make. Each is one line: what was given, what is allowed, what to do."""


class LevelheadError(Exception):
    """The parent of all errors that a user can cause; the command line prints it as one line and exits."""

    exit_code = 4  # an error; 0: all is well, 1: a threshold fails (docs/check.md)


class Stopped(LevelheadError):
    """Ctrl-C in a command that knows what was kept."""

    exit_code = 130  # as shells say it


class NoReader(LevelheadError):
    """Nobody reads what a command prints any more, as after `| head`; there is nobody to say it to."""

    exit_code = 141  # as shells say it


class UnknownModel(LevelheadError):
    """The name, folder or file does not lead to a model that we can load."""


class Announcement(UserWarning):
    """What a user must know about a model that was loaded nevertheless."""


class UnknownFamily(LevelheadError):
    """The architecture is not in the family table."""


class CannotDo(LevelheadError):
    """The model lacks what the measure asks of it, for example a next-sentence head."""

    exit_code = 3  # not measured


class BadProbe(LevelheadError):
    """A text, word, position or file of words that cannot be evaluated."""


class NoEffect(LevelheadError):
    """A control that changed nothing. Silence here would be read as 'no bias', so it is an error."""


class BadRun(LevelheadError):
    """A run folder that is missing, damaged, or belongs to other settings."""


class Busy(LevelheadError):
    """Another thread or task holds the model, in a way that waiting for it could not end."""


class BadOption(LevelheadError):
    """A value of an option or of a setting that is not allowed."""

    exit_code = 2  # usage


class BadPlugin(LevelheadError):
    """A plug-in that raised, called sys.exit, or returned what cannot be used; its error is the cause."""
