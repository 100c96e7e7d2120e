"""Localizers, one file each behind one protocol, and the atlas: what carries each of several objectives."""
