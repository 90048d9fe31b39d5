"""Models: the only modules that import a model library.

embedders  text to vectors; the default needs no download
slots      text to slots, by a chat model
tokens     text to token counts, offline out of the box
"""
