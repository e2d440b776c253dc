"""Spaces of observations and actions: any space of gymnasium, nested or not, as arrays of many lanes.

A value of many lanes is a *struct*: an array whose first axis is the lanes, or a dict or a tuple of structs.
"""
