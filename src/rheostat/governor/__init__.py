"""Turning the knob by itself: the battery, the policy, the governor, and recorded days to try it on."""
