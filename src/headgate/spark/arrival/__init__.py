"""Arrival: the rows of a micro-batch become blocks of stream logs; late, bad and shed ones do not."""
