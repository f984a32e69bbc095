"""The web tools: `web_search` and `web_extract`, on this machine, with the extra `web`.

`fetch` is the only module that opens connections; `addresses` decides which. Pages are read by
`extract_worker`, in a process of its own, and written by `markdown`. None of it is imported before the first call.
"""
