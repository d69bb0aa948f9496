"""The only place that knows transformers: loading, capture, tokens, and the Trace they make."""
