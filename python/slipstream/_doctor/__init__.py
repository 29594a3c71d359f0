"""Parts of slipstream.doctor."""
