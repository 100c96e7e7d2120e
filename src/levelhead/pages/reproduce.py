"""How to make a run again, from its settings: the command, or a Python call where no command can say it."""

from __future__ import annotations

from levelhead.inference.contents import Contents
from levelhead.pages.python_call import python_call
from levelhead.results.asked import command_line

_IN_WORDS = {  # settings that are no option's name
    "words_in_memory": "a word list in memory",
    "data_in_memory": "data in memory",
    "variants_in_memory": "edits in memory",
    "recipes_in_memory": "recipes in memory",
    "measures_in_memory": "measures that were registered in Python",
    "glue_in_python": "this training on GLUE",
    "loading.in_python": "a model in memory, or one that is edited",
}


def command(contents: Contents) -> str:
    """A line for the shell, quoted; or lines of Python, with a comment that says what has no option.

    The line follows from the stored settings alone, and its options from how each of them is asked for.
    """
    settings, folder = contents.run.settings, contents.folder
    lines = [command_line(each, settings, folder) for each in settings.COMMANDS]
    for line in lines:
        if not line.unsaid:
            return str(line)
    unsaid = ", ".join(_IN_WORDS.get(name, name) for name in lines[0].unsaid)
    first = " ".join(("levelhead", *settings.COMMANDS[0].words))
    return f"# in Python, because `{first}` has no option for {unsaid}\n{python_call(settings, folder)}"
