"""What slipstream.verify is made of."""
