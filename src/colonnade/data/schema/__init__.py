"""What a party says in public about its table, and how its rows become numbers.

Claim    encoded entries and rows never exceed `entry_bounds()` and `row_bound()`, whatever the data are.
Encodes  numeric     by its public bounds to [-1, 1]; with scale=False clipped to them, in its own units
         date        its day by its public bounds to [-1, 1]; if asked for, month and weekday as levels
         binary      as 0 or 1
         categorical one 0/1 column per public level; a value outside the levels is all zeros
         plain       as it is: no bound is known, so nothing private can be done with it
Missing  "refuse" (an error), "indicator" (0, and one more 0/1 column), or a value to use instead.
Leaves   the schema itself, and nothing else: names, bounds and levels are public once they are written here.
         A schema read off the data (`Schema.infer`) is marked as such and proves no bound.
"""
