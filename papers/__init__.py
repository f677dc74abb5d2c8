"""The five papers, run again with this code: as published, ours, and where they differ. Not in the wheel.

    python -m papers list | run NAME | all | findings | comparison

`figures/` has one file per figure or table, `published/` the papers' own versions and their rivals, `attacks.py` attacks on them,
`results/` the record that `gallery.md` and `findings.md` are written from. Start with `commands.py`.
"""
