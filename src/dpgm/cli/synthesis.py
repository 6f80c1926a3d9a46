"""Commands about synthesis."""
