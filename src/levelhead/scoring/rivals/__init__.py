"""Scores of other tools by their published rules, each beside what an unbiased model gets.

Unsigned scores of an unbiased model are not 0: two samples of one distribution differ. So every score stands
beside its mean and its 95 % quantile where groups are exchanged.
"""
