"""Pods of a Kubernetes cluster: its API, the manifest of a pod, and what the states of a pod mean.

The kind itself is `kubernetes.py`, and the life of an environment that of `clouds/`.
"""
