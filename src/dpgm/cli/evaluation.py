"""Commands about evaluation."""
