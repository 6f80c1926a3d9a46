"""Public description of records, the records themselves, and how they are read and written."""
