"""Vectors of texts, for similarity and search.

Read in this order: `embedding_settings`, `text_rows`, `losses`, `embedding_objective` and
`similarity_results`; for search `search_data`, `search_metrics` and `search_results`; and
`embedding_task`.
"""
