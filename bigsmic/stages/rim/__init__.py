"""Stages of RIM: initial categories, ascents after which some of them stay alive, and output.

An *ascent* leads from one classifier to another at one strength of the penalty; the classifier that it reaches is a
*point*.
"""
