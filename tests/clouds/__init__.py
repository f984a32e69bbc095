"""Kinds of cloud vendors: by the real SDKs, against stand-ins for the services."""
