"""The picker: a list of the whole history, which narrows while a person types. Imported only when it is opened."""
