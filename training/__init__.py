"""Trains, samples and judges wan-toy, the small video model that ships with vsa.cpp."""
