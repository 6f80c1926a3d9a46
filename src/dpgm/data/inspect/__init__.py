"""What a file seems to hold, for the curator who looks at it before a fit. Nothing is protected here."""
