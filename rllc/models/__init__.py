"""Transformers as flat parameter dicts, and what restricting SGLD to a part of them means."""
