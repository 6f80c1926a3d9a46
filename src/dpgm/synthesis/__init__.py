"""From a request to a release and samples of it: plan, fit, checkpoint, certificate, verification."""
