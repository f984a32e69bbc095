"""Pods of a Kubernetes cluster: its API, the manifest of a pod, what the states of a pod mean, pools of
waiting pods, and claims of agent-sandbox.

The kind itself is `kubernetes.py`, and the life of an environment that of `clouds/`.
"""
