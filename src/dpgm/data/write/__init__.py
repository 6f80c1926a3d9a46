"""Writing records to files, chunk by chunk."""
