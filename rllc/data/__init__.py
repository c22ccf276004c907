"""The data layer: documents of a token distribution, its tokenizer, and the packed rows of its two splits."""
