"""SEAT: how strongly two sets of words lean to two other sets."""
