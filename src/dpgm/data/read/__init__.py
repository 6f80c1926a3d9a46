"""Reading data files, and data in memory, into records.

`readers` decides on the format, `opening` unpacks the file (`lines` splits text into blocks), and one module per format
turns it into `columns`: a stream of Arrow tables, from which records are made in one of three shapes. `storage` holds
rows while they are read. `arrays` and `frames` read matrices and frames. `options` has all that a user can state.
"""
