"""The write path: everything slow happens here, once.

chunk      a long text becomes several records of one source
entities   how many numbers, dates, codes and names a text holds
slots      what a text asserts, by rule
prepare    a record as given becomes a record as stored
files      JSON lines and folders of text
write      store and index change together, or not at all
"""
