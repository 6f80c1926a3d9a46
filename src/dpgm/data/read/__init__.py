"""Reading: one module per format, three shapes of tables, one value that holds every option."""
