"""From text to ids: tokenizers, vocabularies, corpora and the cache of their tokens."""
