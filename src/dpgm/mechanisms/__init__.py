"""The only code that draws privacy noise or Poisson samples."""
