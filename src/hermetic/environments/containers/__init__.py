"""Shared parts of docker, podman and apptainer: options, arguments, the client, images."""
