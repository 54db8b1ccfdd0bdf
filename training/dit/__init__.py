"""Trains Wan's transformer of diffusers with dense attention or with VSA, and compares the two."""
