"""Stages of RIM: categories to begin with, ascents to where some of them stay alive, and what comes out.

An *ascent* goes from one classifier to another at one strength of the penalty; the classifier that it reaches is a
*point*.
"""
