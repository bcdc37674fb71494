"""A local web page with a phone keyboard and the knob: positions, the model for browsers, facts, and an HTTP server."""
