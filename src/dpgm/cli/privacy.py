"""Commands about privacy."""
