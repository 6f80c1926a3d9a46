"""Reading data files, and data in memory, into records.

`readers` opens files, whose formats (`data.formats`) give a stream of Arrow tables, and `frames` makes such a stream of
frames and matrices. `shapes` turns a stream into records by the kinds of columns of the domain, and `persons` groups or
limits the rows of a person. `options` has all that a user can state.
"""
