"""Parts of slipstream.verify."""
