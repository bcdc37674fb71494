"""From typed text to words and back: writing, completion, and which words may be suggested."""
