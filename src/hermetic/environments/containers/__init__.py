"""What docker, podman and apptainer share: options, arguments, the client, images."""
