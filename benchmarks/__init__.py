"""What Hermetic's promises cost, each beside its physical limit, taken in the same run.

`figures` are the values, `measuring` and `limits` take them, one file per subject holds its rows,
`catalog` lists them, `table` and `picture` show them. Tests of behaviour are in tests/.
"""
