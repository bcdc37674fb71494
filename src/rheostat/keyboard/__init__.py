"""A local web page with a phone keyboard and the knob: `positions`, `exports` and `facts` behind an HTTP `server`."""
