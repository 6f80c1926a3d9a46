"""Commands about data."""
