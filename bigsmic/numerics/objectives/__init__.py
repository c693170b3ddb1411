"""Objectives that other methods maximise, and how they do it."""
