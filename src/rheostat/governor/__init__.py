"""Turning the knob automatically: the battery, the policy, the governor, and recorded days to test it on."""
