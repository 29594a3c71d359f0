"""What slipstream.doctor is made of."""
