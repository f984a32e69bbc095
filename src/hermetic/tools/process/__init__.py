"""The process tool: background processes listed, read, awaited, ended and typed into; webhooks for
their notices.
"""
