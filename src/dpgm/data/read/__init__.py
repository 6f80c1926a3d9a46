"""Reading: from a file to its records in one line.

`readers` names the format, `opening` unpacks the file (`lines` cuts text into blocks), one module per format makes
`columns` of it, a stream of Arrow tables, and these become records in one of three shapes; `gathering` keeps rows
while they are read. `arrays` and `frames` take matrices and data in memory. `options` holds all that a user can say.
"""
